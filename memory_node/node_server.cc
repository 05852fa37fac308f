#include "memory_node/node_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "memory_node/store/directory.h"
#include "port/clock.h"
#include "port/processors.h"
#include "util/log.h"
#include "util/numa.h"
#include "util/rpc/verbs/verbs_rpc_server.h"
#include "util/secret_proof.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

RegionOptions RegionOptionsOf(const NodeServerOptions& options) {
  RegionOptions made;
  made.bytes = options.bytes;
  made.kind = options.fabric;
  made.huge_pages = options.huge_pages;
  made.numa_node = options.numa_node;
  made.name = fmt::format("node{}", static_cast<uint32_t>(options.node.node));
  return made;
}

// Lets a handler see what its peer has written one-sided before the call, and the peer read what
// the handler wrote before its answer.
class OrderedHandler : public RpcHandler {
 public:
  OrderedHandler(MessageOrder* order, RpcHandler* handler) : order_(order), handler_(handler) {}

  void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) override {
    order_->AfterReceive();
    handler_->Handle(
        peer, method, request,
        [order = order_, done = std::move(done)](const Status& status, std::string reply) {
          order->BeforeSend();
          done(status, std::move(reply));
        });
  }
  void Disconnected(const RpcPeer& peer) override { handler_->Disconnected(peer); }

 private:
  MessageOrder* const order_;
  RpcHandler* const handler_;
};

// Longer than a session lasts without a connection, with room for the housekeeping: so a token
// whose session may still go on is not taken from a client that comes back in time. Neither counts
// time for which this process stood still.
std::chrono::nanoseconds TokenGrace(const MemoryNodeOptions& node) {
  return node.grace + std::chrono::seconds(1);
}

// More than a few would take the processors of merges, and one that is idle costs nothing.
int FabricThreads() {
  constexpr unsigned kMost = 4;
  return static_cast<int>(std::min(port::ProcessorCount(), kMost));
}

}  // namespace

NodeServer::NodeServer(const NodeServerOptions& options)
    : options_(options),
      tokens_(
          TokenGrace(options.node),
          [this](const std::string& token, const ClientRights& owner) { AllowToken(token, owner); },
          [this](const std::string& token) {
            // No session has this token, so nobody waits for its end.
            node_->revoker().Revoke({token}, [](const Status& status) {
              if (status.ok() || status.IsAborted()) return;
              Log().Warn("a client that has gone is not cut off yet: {}", status.ToString());
            });
          }) {}

void NodeServer::AllowToken(const std::string& token, const ClientRights& owner) {
  if (owner == nullptr) {
    fabric_->AllowToken(token, DataKey(options_.secret, token));
  } else {
    fabric_->AllowToken(token, DataKey(owner->secret(), token), extent_owners_->ReachOf(owner));
    if (!options_.access_shares_memory) return;  // A device cannot be told what is whose.
  }
  if (verbs_ != nullptr) verbs_->AllowToken(token);
}

std::string NodeServer::TlsKeyOf(const std::string& identity) const {
  if (identity == kTlsIdentityPrefix) return TlsKey(options_.secret);
  ClientRights rights;
  if (options_.access != nullptr && identity.starts_with(kTlsIdentityPrefix)) {
    rights = options_.access->Find(identity.substr(kTlsIdentityPrefix.size()));
  }
  // Who is not in the list is refused like one with a wrong secret, and after the same work.
  return TlsKey(rights != nullptr ? rights->secret() : nobodys_secret_);
}

Status NodeServer::MakeTls(const NodeServerOptions& options) {
  if (!options.tls.on()) return Status::OK();
  if (options.tls.certificate_file.empty() && options.secret.empty()) {
    return Status::InvalidArgument(
        "TLS has nothing to know clients by: give a --secret_file, or a --tls_certificate_file");
  }
  DLSM_RETURN_IF_ERROR(RandomBytes(kProofBytes, &nobodys_secret_));
  DLSM_RETURN_IF_ERROR(TlsContext::ForServer(
      options.tls, [this](const std::string& identity) { return TlsKeyOf(identity); }, &tls_));
  // Other memory nodes are known as clients know this one. Where there is no CA for them, theirs is
  // this one's certificate.
  TlsConfig peers = options.tls;
  if (peers.ca_file.empty()) peers.ca_file = peers.certificate_file;
  peer_credentials_.secret = options.secret;
  return UseTls(peers, &peer_credentials_);
}

Status NodeServer::CutOff(const std::string& token) {
  tokens_.Forget(token);
  const Status tcp = fabric_->RevokeToken(token);
  Status verbs;
  if (verbs_ != nullptr) verbs = verbs_->RevokeToken(token);
  if (tcp.ok()) return verbs;
  verbs.PermitUncheckedError();  // The caller comes again, whatever failed.
  return tcp;
}

Status NodeServer::OpenDirectory(NodeStore* store, std::unique_ptr<ExportedRegion>* region) const {
  if (options_.fabric == FabricKind::kVerbs) {
    return Status::InvalidArgument(
        "--fabric=verbs and --data_dir do not go together yet, because devices do not write to "
        "files' "
        "memory; use shm or tcp");
  }
  DirectoryOptions wanted;
  wanted.path = options_.data_dir;
  wanted.capacity_bytes = options_.bytes;
  std::unique_ptr<Directory> directory;
  Directory::Opened opened;
  DLSM_RETURN_IF_ERROR(Directory::Open(wanted, &opened, &directory));
  RegionOptions made = RegionOptionsOf(options_);
  made.file = directory->region_descriptor();
  made.file_path = directory->region_path();
  DLSM_RETURN_IF_ERROR(CreateRegion(made, region));
  directory->MappedAt((*region)->data(), options_.bytes);
  DLSM_RETURN_IF_ERROR(directory->ReadAhead(opened.state));
  store->files = std::move(directory);
  store->contents = std::move(opened.contents);
  store->state = std::move(opened.state);
  store->rows = std::move(opened.rows);
  store->resumed = opened.resumed;
  return Status::OK();
}

void NodeServer::RestoreTokens() {
  // With an access list, whose each token was is not stored: its clients draw new ones.
  if (options_.access != nullptr) return;
  const auto until = port::Clock::now() + options_.node.lease;
  for (const std::string& token : node_->databases().DataTokens()) {
    tokens_.Restore(token, nullptr, until);
  }
}

Status NodeServer::StartMemoryNode() {
  NodeStore store;
  std::unique_ptr<ExportedRegion> region;
  if (options_.data_dir.empty()) {
    DLSM_RETURN_IF_ERROR(CreateRegion(RegionOptionsOf(options_), &region));
  } else {
    DLSM_RETURN_IF_ERROR(OpenDirectory(&store, &region));
  }
  MemoryNodeOptions node_options = options_.node;
  node_options.credentials = peer_credentials_;
  node_options.verbs = options_.verbs;
  node_options.clients_map_memory = options_.fabric == FabricKind::kShm;
  if (options_.access != nullptr) {
    extent_owners_ = std::make_unique<ExtentOwners>(region->info().id);
    node_options.extent_owners = extent_owners_.get();
  }
  if (store.files == nullptr) return MemoryNode::Start(node_options, std::move(region), &node_);
  return MemoryNode::Start(node_options, std::move(store), std::move(region), &node_);
}

Status NodeServer::StartFabrics(ServerTransportFactory* transports) {
  DLSM_RETURN_IF_ERROR(StartingThreads([this] {
    const int threads = options_.fabric_threads > 0 ? options_.fabric_threads : FabricThreads();
    return TcpFabricServer::Start({&node_->region()}, threads, options_.tcp_poll, &order_,
                                  &fabric_);
  }));
  if (options_.fabric != FabricKind::kVerbs) return Status::OK();
  DLSM_RETURN_IF_ERROR(StartingThreads(
      [this] { return VerbsFabricServer::Start({&node_->region()}, options_.verbs, &verbs_); }));
  return NewVerbsTransportFactory(options_.verbs, transports);
}

RpcServerOptions NodeServer::RpcOptions(ServerTransportFactory transports) {
  RpcServerOptions rpc;
  rpc.bind_address = options_.bind_address;
  rpc.port = options_.port;
  rpc.secret = options_.secret;
  rpc.node = options_.node.node;
  rpc.contents = node_->contents();
  rpc.boot = node_->boot();
  rpc.persistence = node_->persistence();
  rpc.has_files = node_->has_files();
  rpc.fabric = options_.fabric;
  rpc.regions = {node_->region().info()};
  rpc.connections_max = options_.connections_max;
  rpc.transports = std::move(transports);
  rpc.tls = tls_;
  rpc.access = options_.access;
  rpc.access_shares_memory = options_.access_shares_memory;
  rpc.greet_data_connection = [fabric = fabric_.get()](TcpStream& stream, Deadline deadline,
                                                       std::string* token) {
    return fabric->Greet(stream, deadline, token);
  };
  rpc.on_data_connection = [fabric = fabric_.get()](TcpStream stream, const std::string& token) {
    fabric->Adopt(std::move(stream), token);
  };
  rpc.refuse_data_connection = [fabric = fabric_.get()](TcpStream& stream, Deadline deadline) {
    return fabric->Refuse(stream, deadline);
  };
  if (verbs_ != nullptr) {
    rpc.greet_queue_pair_connection = [verbs = verbs_.get()](int socket, Deadline deadline,
                                                             std::string* token) {
      return verbs->Greet(socket, deadline, token);
    };
    rpc.on_queue_pair_connection = [verbs = verbs_.get()](int socket, const std::string& token) {
      return verbs->Adopt(socket, token);
    };
    rpc.refuse_queue_pair_connection = [verbs = verbs_.get()](int socket, Deadline deadline) {
      return verbs->Refuse(socket, deadline);
    };
  }
  rpc.tokens = &tokens_;
  return rpc;
}

Status NodeServer::Start(const NodeServerOptions& options, std::unique_ptr<NodeServer>* server) {
  if (options.fabric == FabricKind::kLocal) {
    return Status::InvalidArgument("a memory node serves shm, tcp or verbs, not local");
  }
  DLSM_RETURN_IF_ERROR(CheckNumaNode(options.numa_node));
  // All threads are made here, or by threads that are.
  const ThreadOnNumaNode on_node(options.numa_node);
  std::unique_ptr<NodeServer> made(new NodeServer(options));
  made->threads_on_node_ = on_node.status();
  made->peer_credentials_ = Credentials(options.secret);
  DLSM_RETURN_IF_ERROR(made->MakeTls(options));
  if (options.access != nullptr && options.secret.empty()) {
    return Status::InvalidArgument(
        "an access list without a secret would let everybody in who shows no name; give a "
        "--secret_file as well");
  }
  DLSM_RETURN_IF_ERROR(made->StartMemoryNode());
  ServerTransportFactory transports;
  DLSM_RETURN_IF_ERROR(made->StartFabrics(&transports));
  made->ordered_node_ = std::make_unique<OrderedHandler>(&made->order_, made->node_.get());
  made->RestoreTokens();
  const RpcServerOptions rpc = made->RpcOptions(std::move(transports));
  made->node_->revoker().SetCutOff(
      [server = made.get()](const std::string& token) { return server->CutOff(token); });
  // Before clients can come: who has written something here must not see the start fail.
  if (options.take_all_pages) made->node_->region().TakeAllPages();
  DLSM_RETURN_IF_ERROR(StartingThreads(
      [&] { return RpcServer::Start(rpc, made->ordered_node_.get(), &made->rpc_); }));
  *server = std::move(made);
  return Status::OK();
}

std::string NodeServer::DescribeFabric() const {
  if (verbs_ == nullptr) return FabricKindName(options_.fabric);
  return fmt::format("verbs on {}", verbs_->Describe());
}

std::string NodeServer::DescribePlace() const {
  const std::string& memory = node_->region().note();
  if (options_.numa_node == kNoNumaNode) return memory;
  if (threads_on_node_.ok()) return memory + "; threads as well";
  return memory + "; " + threads_on_node_.message().ToString();
}

VerbsEventCounts NodeServer::DeviceEvents() const {
  return verbs_ != nullptr ? verbs_->Events() : VerbsEventCounts();
}

NodeServer::~NodeServer() {
  // Nobody may write to the memory, or ask for it, when it goes.
  rpc_.reset();
  if (node_ != nullptr) node_->revoker().Stop();
  verbs_.reset();
  fabric_.reset();
  node_.reset();
}

}  // namespace dlsm
