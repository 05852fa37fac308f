// The memory node's end of the verbs fabric: it lets clients in, and watches their life lines. The
// device does the rest; nothing here runs when memory is read or written.
#include "util/fabric/verbs/verbs_server.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <new>
#include <utility>
#include <variant>

#include "port/clock.h"
#include "port/error_text.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tcp/tcp_tokens.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/verbs/verbs_client.h"
#include "util/fabric/verbs/verbs_cm_listener.h"
#include "util/fabric/verbs/verbs_reaper.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each takes a socket and the device's memory: a bound on what peers that passed the hello can make
// this process hold.
constexpr size_t kQueuePairsMax = 16384;
// How long a client may take to make its offer.
constexpr std::chrono::seconds kOfferMax{5};
constexpr const char* kMakeOffer = "make its offer";
constexpr int kEventsMax = 64;
// A life line that there was no memory to end is told of again at once: not more often than this.
constexpr std::chrono::milliseconds kDropRetryDelay{50};
constexpr uint64_t kWakeNumber = 0;  // Life lines count from 1.

class VerbsFabricServerImpl : public VerbsFabricServer {
 public:
  VerbsFabricServerImpl(std::shared_ptr<const VerbsDevice> device,
                        std::vector<ExportedRegion*> regions, FileDescriptor epoll,
                        FileDescriptor wake)
      : device_(std::move(device)),
        regions_(std::move(regions)),
        epoll_(std::move(epoll)),
        wake_(std::move(wake)),
        thread_([this] { WatchLifeLines(); }) {}

  ~VerbsFabricServerImpl() override {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
    thread_.join();
    {
      const port::MutexLock lock(listener_mutex_);
      listener_.reset();
    }
    const port::MutexLock lock(mutex_);
    for (const auto& [token, client] : clients_) reaper_.Give(client->CutOff());
  }

  Status Greet(int socket, Deadline deadline, std::string* token) override {
    std::string shown(kVerbsTokenBytes, '\0');
    DLSM_RETURN_IF_ERROR(
        OfClient(ReceiveWhole(SocketPeerName(socket), socket, shown.data(), shown.size(), deadline),
                 "show its token"));
    if (!tokens_.Allowed(shown)) return TokenRefused();
    *token = std::move(shown);
    return Status::OK();
  }

  Status Adopt(int socket, const std::string& token) override LOCKS_EXCLUDED(mutex_) {
    FileDescriptor owned(socket);
    PrepareDataSocket(socket);
    std::shared_ptr<VerbsClient> client;
    uint64_t number = 0;
    DLSM_RETURN_IF_ERROR(Admit(token, &client, &number));
    const Status status = Arrange(SocketPeerName(socket), std::move(owned), *client, number);
    if (!status.ok()) Forget(number);
    return status;
  }

  Status Refuse(int socket, Deadline deadline) override {
    const std::string peer = SocketPeerName(socket);
    Offer offer;
    DLSM_RETURN_IF_ERROR(OfClient(ReceiveOffer(peer, socket, deadline, &offer), kMakeOffer));
    return OfClient(SendRefusal(peer, socket, deadline,
                                "no descriptor is left for the queue pair: raise the limit of open "
                                "files of its Server (ulimit -n)"),
                    "take a refusal");
  }

  void AllowToken(const std::string& token) override { tokens_.Allow(token); }

  Status RevokeToken(const std::string& token) override {
    // First, so that a client that is showing it just now is either refused or cut off below.
    tokens_.Revoke(token);
    // Its nodes are moved without memory: so what there is none to take down is found again.
    Leftovers mine;
    std::list<VerbsClient::Remains>& left = mine[token];
    left.emplace_back();
    std::shared_ptr<VerbsClient> client;
    {
      const port::MutexLock lock(mutex_);
      const auto found = clients_.find(token);
      if (found != clients_.end()) client = found->second;
    }
    // Before it is forgotten: where there is no memory for that, it is to be found again.
    if (client != nullptr) left.back() = client->CutOff();
    {
      const port::MutexLock lock(mutex_);
      const auto before = left_.find(token);
      if (before != left_.end()) {
        left.splice(left.begin(), before->second);
        left_.erase(before);
      }
      if (client != nullptr) {
        clients_.erase(token);
        std::erase_if(lines_, [&](const auto& line) { return line.second == client; });
      }
    }
    Status first;
    try {
      TakeDown(&left, &first);
    } catch (const std::bad_alloc&) {
      Keep(&mine);
      first.PermitUncheckedError();  // It is tried again, whatever has failed.
      throw;
    }
    if (!left.empty()) Keep(&mine);
    return first;
  }

  std::string Describe() const override { return device_->Describe(); }
  VerbsEventCounts Events() const override { return device_->events().counts(); }

  // Listens at the connection manager, if it does not yet.
  Status Listen() LOCKS_EXCLUDED(listener_mutex_) {
    const port::MutexLock lock(listener_mutex_);
    if (listener_ != nullptr) return Status::OK();
    const auto accept = [this](uint64_t number, std::unique_ptr<VerbsCmId> request) {
      return Accept(number, std::move(request));
    };
    return VerbsCmListener::Start(*device_, accept, &listener_);
  }

 private:
  using Offer = std::variant<VerbsOffer, VerbsCmOffer>;
  // By the token that it was made for.
  using Leftovers = std::map<std::string, std::list<VerbsClient::Remains>>;

  // *left keeps what could not be taken down, *first says why. May throw std::bad_alloc.
  void TakeDown(std::list<VerbsClient::Remains>* left, Status* first) {
    for (auto remains = left->begin(); remains != left->end();) {
      Status status = remains->TakeDown();
      if (status.ok()) {
        reaper_.Give(std::move(*remains));
        remains = left->erase(remains);
      } else {
        KeepFirstError(std::move(status), first);
        ++remains;
      }
    }
  }

  // Takes what is of one token. Needs no memory.
  void Keep(Leftovers* leftovers) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    auto kept = left_.insert(leftovers->extract(leftovers->begin()));
    if (kept.inserted) return;
    // It is being revoked by another thread, too.
    std::list<VerbsClient::Remains>& others = kept.position->second;
    others.splice(others.end(), kept.node.mapped());
  }

  static Status TokenRefused() {
    return Status::InvalidArgument("it showed a token that is not, or no longer, good");
  }

  Status Arrange(const std::string& peer, FileDescriptor socket, VerbsClient& client,
                 uint64_t number) {
    const Deadline deadline = Deadline::In(kOfferMax);
    Offer offer;
    DLSM_RETURN_IF_ERROR(OfClient(ReceiveOffer(peer, socket.get(), deadline, &offer), kMakeOffer));
    return Answer(peer, std::move(socket), deadline, offer, client, number);
  }

  static Status ReceiveOffer(const std::string& peer, int socket, Deadline deadline, Offer* offer) {
    VerbsFrameKind kind{};
    std::string body;
    DLSM_RETURN_IF_ERROR(ReceiveVerbsFrame(peer, socket, deadline, &kind, &body));
    if (kind == VerbsFrameKind::kOffer) return offer->emplace<VerbsOffer>().Decode(body);
    if (kind == VerbsFrameKind::kCmOffer) return offer->emplace<VerbsCmOffer>().Decode(body);
    return Status::Corruption("no offer");
  }

  static Status SendRefusal(const std::string& peer, int socket, Deadline deadline,
                            const std::string& reason) {
    return SendWhole(peer, socket,
                     EncodeVerbsFrame(VerbsFrameKind::kRefusal, VerbsRefusal{reason}.Encode()),
                     deadline);
  }

  // Sets *client to that of `token`, and *number to its new life line's.
  Status Admit(const std::string& token, std::shared_ptr<VerbsClient>* client, uint64_t* number)
      LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    // Under the mutex: RevokeToken() either comes before this, or finds the client.
    if (!tokens_.Allowed(token)) return TokenRefused();
    const size_t count = lines_.size() + reaper_.waiting();
    if (count >= kQueuePairsMax) {
      return Status::Busy(fmt::format("there are {} queue pairs already", count));
    }
    std::shared_ptr<VerbsClient>& known = clients_[token];
    if (known == nullptr) known = std::make_shared<VerbsClient>(device_, regions_, epoll_.get());
    *client = known;
    *number = next_number_++;
    lines_.emplace(*number, known);
    return Status::OK();
  }

  Status Answer(const std::string& peer, FileDescriptor socket, Deadline deadline,
                const Offer& offer, VerbsClient& client, uint64_t number) {
    // Shared, so that its number stays this socket's while the answer is sent.
    const auto shared = std::make_shared<const FileDescriptor>(std::move(socket));
    const int descriptor = shared->get();
    std::string bytes;
    Status status = std::visit(
        [&](const auto& each) { return MakeAnswer(each, client, number, shared, &bytes); }, offer);
    if (!status.ok()) {
      const Status sent = SendRefusal(peer, descriptor, deadline, status.message().ToString());
      if (!sent.ok()) Log().Debug("a refusal did not reach its client: {}", sent.ToString());
      return status;
    }
    status = OfClient(SendWhole(peer, descriptor, bytes, deadline), "take the answer");
    if (!status.ok()) reaper_.Give(client.Drop(number));
    return status;
  }

  // Sets *bytes to the answer's frame.
  Status MakeAnswer(const VerbsOffer& offer, VerbsClient& client, uint64_t number,
                    const std::shared_ptr<const FileDescriptor>& socket, std::string* bytes) {
    if (device_->options().connect == VerbsConnect::kCm || device_->is_iwarp()) {
      return Status::InvalidArgument(fmt::format(
          "{} takes connections by connection manager only; set connection=cm", device_->name()));
    }
    VerbsAnswer answer;
    DLSM_RETURN_IF_ERROR(
        client.Arrange(offer, SocketAddress(socket->get()), number, socket, &answer));
    *bytes = EncodeVerbsFrame(VerbsFrameKind::kAnswer, answer.Encode());
    return Status::OK();
  }

  Status MakeAnswer(const VerbsCmOffer& offer, VerbsClient& client, uint64_t number,
                    const std::shared_ptr<const FileDescriptor>& socket, std::string* bytes)
      LOCKS_EXCLUDED(listener_mutex_) {
    if (device_->options().connect == VerbsConnect::kHello) {
      return Status::InvalidArgument("the Server was started with connection=hello; set that");
    }
    VerbsCmAnswer answer;
    DLSM_RETURN_IF_ERROR(Listen());
    DLSM_RETURN_IF_ERROR(client.Arrange(offer, number, socket, &answer));
    const port::MutexLock lock(listener_mutex_);
    listener_->Expect(number, SocketAddress(socket->get()), &answer);
    *bytes = EncodeVerbsFrame(VerbsFrameKind::kCmAnswer, answer.Encode());
    return Status::OK();
  }

  // Of the listener's thread.
  Status Accept(uint64_t number, std::unique_ptr<VerbsCmId> request) LOCKS_EXCLUDED(mutex_) {
    std::shared_ptr<VerbsClient> client;
    {
      const port::MutexLock lock(mutex_);
      const auto found = lines_.find(number);
      if (found != lines_.end()) client = found->second;
    }
    if (client != nullptr) return client->Accept(number, std::move(request));
    request->Reject();
    return Status::IOError("its life line has ended");
  }

  void Forget(uint64_t number) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    lines_.erase(number);
  }

  void WatchLifeLines() LOCKS_EXCLUDED(mutex_) {
    std::array<epoll_event, kEventsMax> events;
    while (true) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, -1);
      if (count < 0 && errno != EINTR) {
        Log().Critical("life lines are not watched any more: epoll_wait: {}",
                       port::ErrorText(errno));
        return;
      }
      for (int i = 0; i < count; ++i) {
        const uint64_t number = events[static_cast<size_t>(i)].data.u64;
        if (number == kWakeNumber) return;
        bool dropped = false;
        IfMemoryPermits([&] {
          DropLine(number);
          dropped = true;
        });
        if (!dropped) port::SleepFor(kDropRetryDelay);
      }
    }
  }

  // A client says nothing on its life line: whatever comes, it is over. It is forgotten last: where
  // there is no memory to end it, it is told of again.
  void DropLine(uint64_t number) LOCKS_EXCLUDED(mutex_) {
    std::shared_ptr<VerbsClient> client;
    {
      const port::MutexLock lock(mutex_);
      const auto found = lines_.find(number);
      if (found == lines_.end()) return;
      client = found->second;
    }
    VerbsClient::Remains remains = client->Drop(number);
    Forget(number);
    reaper_.Give(std::move(remains));
  }

  const std::shared_ptr<const VerbsDevice> device_;
  const std::vector<ExportedRegion*> regions_;
  const FileDescriptor epoll_;
  const FileDescriptor wake_;  // An eventfd: the thread is to end.
  TcpTokens tokens_;
  VerbsReaper reaper_;

  port::Mutex listener_mutex_;  // Protects what follows. The listener's thread does not take it.
  std::unique_ptr<VerbsCmListener> listener_ GUARDED_BY(listener_mutex_);  // Null until needed.

  // Protects what follows. Never held while a client's own mutex is, except at the end; taken
  // before the reaper's.
  port::Mutex mutex_;
  std::map<std::string, std::shared_ptr<VerbsClient>> clients_ GUARDED_BY(mutex_);  // By token.
  std::map<uint64_t, std::shared_ptr<VerbsClient>> lines_ GUARDED_BY(mutex_);
  Leftovers left_ GUARDED_BY(mutex_);  // What could not be taken down.
  uint64_t next_number_ GUARDED_BY(mutex_) = kWakeNumber + 1;

  port::Thread thread_;
};

// Takes and pins every page once, so that what cannot be registered is known at the start, and the
// first client does not wait for it.
Status TryRegistration(const std::shared_ptr<const VerbsDevice>& device,
                       const std::vector<ExportedRegion*>& regions) {
  uint64_t bytes = 0;
  for (const ExportedRegion* region : regions) bytes += region->info().bytes;
  DLSM_RETURN_IF_ERROR(CheckLockedMemory(bytes));
  std::shared_ptr<const VerbsDomain> domain;
  VerbsExports exports;
  DLSM_RETURN_IF_ERROR(VerbsDomain::Create(device, &domain));
  return VerbsExports::Register(*domain, regions, &exports);
}

}  // namespace

Status VerbsFabricServer::Start(std::vector<ExportedRegion*> regions, const VerbsOptions& options,
                                std::unique_ptr<VerbsFabricServer>* server) {
  std::shared_ptr<const VerbsDevice> device;
  DLSM_RETURN_IF_ERROR(VerbsDevice::Open(options, &device));
  return Start(std::move(regions), std::move(device), server);
}

Status VerbsFabricServer::Start(std::vector<ExportedRegion*> regions,
                                std::shared_ptr<const VerbsDevice> device,
                                std::unique_ptr<VerbsFabricServer>* server) {
  DLSM_RETURN_IF_ERROR(TryRegistration(device, regions));
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeNumber;
  if (!epoll.valid() || !wake.valid()) return CannotOpen("watching clients", errno);
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return Status::IOError(fmt::format("cannot watch clients: {}", port::ErrorText(errno)));
  }
  const bool by_manager = device->connects_by_manager();
  auto made = std::make_unique<VerbsFabricServerImpl>(std::move(device), std::move(regions),
                                                      std::move(epoll), std::move(wake));
  // Otherwise when the first client asks for it: others need no librdmacm.
  if (by_manager) DLSM_RETURN_IF_ERROR(made->Listen());
  *server = std::move(made);
  return Status::OK();
}

}  // namespace dlsm
