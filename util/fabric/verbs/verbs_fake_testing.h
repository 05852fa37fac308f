// An RDMA device that is not there: for tests of what a device is asked to do, and of what becomes
// of it when the device cannot, or has failed. It takes work requests and reports them as devices
// do: in order, those alone that ask for it, and what a queue pair's send queue held comes back
// with the next report. It moves no bytes.
#pragma once

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "util/fabric/verbs/verbs_device.h"
#include "util/fabric/verbs/verbs_library.h"

namespace dlsm {

// One at a time. It outlives what was opened through library(), whose calls may come from any
// thread; the public vectors are looked at, and the attributes set, while there are none.
class FakeVerbs {
 public:
  FakeVerbs() {
    current_ = this;
    std::strcpy(device_.name, "fake0");
    device_.transport_type = IBV_TRANSPORT_IB;
    attributes.phys_port_cnt = 1;
    attributes.max_qp_wr = 1024;
    attributes.max_cqe = 4096;
    attributes.max_qp_rd_atom = attributes.max_qp_init_rd_atom = 16;
    attributes.atomic_cap = IBV_ATOMIC_HCA;
    port.state = IBV_PORT_ACTIVE;
    port.active_mtu = IBV_MTU_4096;
    port.max_msg_sz = 1u << 30;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    FillLibrary();
  }
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;
  ~FakeVerbs() {
    for (const auto& [number, kept] : queue_pairs_) delete kept;  // What it did not destroy.
    current_ = nullptr;
  }

  const VerbsLibrary& library() const { return library_; }
  Status Open(const VerbsOptions& options, std::shared_ptr<const VerbsDevice>* device) {
    return VerbsDevice::Open(options, library_, device);
  }

  // Where the kernel would describe it; before it is opened.
  void set_folder(const std::string& folder) {
    folder.copy(device_.ibdev_path, sizeof(device_.ibdev_path) - 1);
  }

  // What it is; before it is opened.
  ibv_device_attr attributes{};
  ibv_port_attr port{};

  // Whether work requests end, and whether they do when their queue pair is stopped.
  std::atomic<bool> completes{true};
  std::atomic<bool> flushes{true};
  // Whether it destroys queue pairs.
  std::atomic<bool> destroys{true};

  // What it was asked for.
  struct Sent {
    ibv_wr_opcode opcode{};
    unsigned flags = 0;
    uint32_t bytes = 0;
    uint64_t remote_address = 0;
  };
  std::vector<Sent> sent;
  std::vector<ibv_qp_attr> modified;
  std::vector<ibv_qp_init_attr> created;

  // Ends what is under way there, oldest first.
  void Complete() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [number, queue_pair] : queue_pairs_) Report(queue_pair, IBV_WC_SUCCESS, false);
  }
  // A message arrives in the buffer that was posted first; of no bytes: a bare report.
  void Arrive(const char* data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    QueuePair& at = *queue_pairs_.begin()->second;
    const Receive buffer = at.receives.front();
    at.receives.pop_front();
    if (bytes > 0) std::memcpy(buffer.data, data, bytes);
    ibv_wc report{};
    report.wr_id = buffer.id;
    report.opcode = IBV_WC_RECV;
    report.byte_len = static_cast<uint32_t>(bytes);
    report.qp_num = at.qp_num;
    static_cast<CompletionQueue*>(at.recv_cq)->reports.push_back(report);
  }
  // What it reports next of itself; and that it has gone, so that it reports no more.
  void Tell(const ibv_async_event& event) {
    const std::lock_guard<std::mutex> lock(events_mutex_);
    events_.push_back(event);
    WakeWatcher();
  }
  void Vanish() {
    const std::lock_guard<std::mutex> lock(events_mutex_);
    gone_ = true;
    WakeWatcher();
  }

 private:
  struct CompletionQueue : ibv_cq {
    std::deque<ibv_wc> reports;
  };
  struct UnderWay {
    uint64_t id = 0;
    bool signaled = false;
    bool reported = false;
  };
  struct Receive {
    uint64_t id = 0;
    char* data = nullptr;
  };
  struct QueuePair : ibv_qp {
    uint32_t depth = 0;
    std::deque<UnderWay> under_way;
    std::deque<Receive> receives;
  };

  static QueuePair* Of(ibv_qp* queue_pair) { return static_cast<QueuePair*>(queue_pair); }

  void WakeWatcher() {
    const uint64_t one = 1;
    if (async_ >= 0) static_cast<void>(!::write(async_, &one, sizeof(one)));
  }

  // All of it, if the queue pair was stopped.
  static void Report(QueuePair* queue_pair, ibv_wc_status status, bool all) {
    for (UnderWay& each : queue_pair->under_way) {
      if (each.reported || !(all || each.signaled)) continue;
      each.reported = true;
      ibv_wc report{};
      report.wr_id = each.id;
      report.status = status;
      report.qp_num = queue_pair->qp_num;
      static_cast<CompletionQueue*>(queue_pair->send_cq)->reports.push_back(report);
    }
  }

  static int PostSend(ibv_qp* at, ibv_send_wr* chain, ibv_send_wr** refused) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    QueuePair* const queue_pair = Of(at);
    for (; chain != nullptr; chain = chain->next) {
      if (queue_pair->under_way.size() >= queue_pair->depth) {
        *refused = chain;
        return ENOMEM;
      }
      const uint32_t bytes = chain->num_sge > 0 ? chain->sg_list[0].length : 0;
      current_->sent.push_back(
          Sent{chain->opcode, chain->send_flags, bytes, chain->wr.rdma.remote_addr});
      queue_pair->under_way.push_back(
          UnderWay{chain->wr_id, (chain->send_flags & IBV_SEND_SIGNALED) != 0});
    }
    if (current_->completes) Report(queue_pair, IBV_WC_SUCCESS, false);
    return 0;
  }
  static int PostReceive(ibv_qp* at, ibv_recv_wr* request, ibv_recv_wr** /*refused*/) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    char* const data =
        request->num_sge > 0 ? reinterpret_cast<char*>(request->sg_list[0].addr) : nullptr;
    Of(at)->receives.push_back(Receive{request->wr_id, data});
    return 0;
  }
  static int Poll(ibv_cq* at, int most, ibv_wc* reports) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    auto* const queue = static_cast<CompletionQueue*>(at);
    int count = 0;
    for (; count < most && !queue->reports.empty(); ++count) {
      const ibv_wc report = reports[count] = queue->reports.front();
      queue->reports.pop_front();
      const auto found = current_->queue_pairs_.find(report.qp_num);
      if (report.opcode == IBV_WC_RECV || found == current_->queue_pairs_.end()) continue;
      std::deque<UnderWay>& under_way = found->second->under_way;
      while (!under_way.empty() && under_way.front().id <= report.wr_id) under_way.pop_front();
    }
    return count;
  }

  static ibv_device** GetDeviceList(int* count) {
    *count = 1;
    return current_->list_;
  }
  static ibv_context* OpenDevice(ibv_device* device) {
    auto* const made = new ibv_context{};
    made->device = device;
    made->ops.post_send = &PostSend;
    made->ops.post_recv = &PostReceive;
    made->ops.poll_cq = &Poll;
    made->ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
    made->async_fd = current_->async_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return made;
  }
  static int CloseDevice(ibv_context* context) {
    current_->async_ = -1;
    ::close(context->async_fd);
    delete context;
    return 0;
  }
  static ssize_t QueryGidTable(ibv_context*, ibv_gid_entry* entries, size_t, uint32_t, size_t) {
    entries[0] = {};
    entries[0].gid.raw[10] = entries[0].gid.raw[11] = 0xff;
    entries[0].gid.raw[12] = 10;
    entries[0].gid.raw[15] = 7;
    entries[0].port_num = 1;
    entries[0].gid_type = static_cast<uint32_t>(GidType::kRoceV2);
    return 1;
  }
  static ibv_cq* CreateCompletionQueue(ibv_context* context, int entries, void*,
                                       ibv_comp_channel* channel, int) {
    if (entries > current_->attributes.max_cqe) return nullptr;
    auto* const made = new CompletionQueue{};
    made->context = context;
    made->channel = channel;
    made->cqe = entries;
    return made;
  }
  static ibv_qp* CreateQueuePair(ibv_pd* domain, ibv_qp_init_attr* attributes) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    auto* const made = new QueuePair{};
    made->context = domain->context;
    made->send_cq = attributes->send_cq;
    made->recv_cq = attributes->recv_cq;
    made->qp_num = ++current_->last_number_;
    made->depth = attributes->cap.max_send_wr;
    current_->queue_pairs_[made->qp_num] = made;
    current_->created.push_back(*attributes);
    return made;
  }
  static int ModifyQueuePair(ibv_qp* at, ibv_qp_attr* attributes, int /*mask*/) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    current_->modified.push_back(*attributes);
    if (attributes->qp_state == IBV_QPS_ERR && current_->flushes) {
      Report(Of(at), IBV_WC_WR_FLUSH_ERR, true);
    }
    return 0;
  }
  static int DestroyQueuePair(ibv_qp* at) {
    const std::lock_guard<std::mutex> lock(current_->mutex_);
    if (!current_->destroys) return EIO;
    current_->queue_pairs_.erase(at->qp_num);
    delete Of(at);
    return 0;
  }
  static int GetAsyncEvent(ibv_context* context, ibv_async_event* event) {
    const std::lock_guard<std::mutex> lock(current_->events_mutex_);
    uint64_t count = 0;
    static_cast<void>(!::read(context->async_fd, &count, sizeof(count)));
    errno = current_->gone_ ? EIO : EAGAIN;
    if (current_->events_.empty()) return -1;
    *event = current_->events_.front();
    current_->events_.pop_front();
    return 0;
  }

  void FillLibrary() {
    library_.get_device_list = &GetDeviceList;
    library_.free_device_list = [](ibv_device**) {};
    library_.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
    library_.open_device = &OpenDevice;
    library_.close_device = &CloseDevice;
    library_.query_device = [](ibv_context*, ibv_device_attr* to) {
      *to = current_->attributes;
      return 0;
    };
    library_.query_port = [](ibv_context*, uint8_t, _compat_ibv_port_attr* to) {
      *reinterpret_cast<ibv_port_attr*>(to) = current_->port;
      return 0;
    };
    library_.query_gid_table = &QueryGidTable;
    library_.alloc_pd = [](ibv_context* context) {
      auto* const made = new ibv_pd{};
      made->context = context;
      return made;
    };
    library_.dealloc_pd = [](ibv_pd* domain) {
      delete domain;
      return 0;
    };
    library_.reg_mr = [](ibv_pd* domain, void* data, size_t bytes, int) {
      auto* const made = new ibv_mr{};
      made->pd = domain;
      made->addr = data;
      made->length = bytes;
      made->lkey = made->rkey = ++current_->last_key_;
      return made;
    };
    library_.dereg_mr = [](ibv_mr* registration) {
      delete registration;
      return 0;
    };
    library_.create_comp_channel = [](ibv_context* context) {
      auto* const made = new ibv_comp_channel{};
      made->context = context;
      made->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      return made;
    };
    library_.destroy_comp_channel = [](ibv_comp_channel* channel) {
      ::close(channel->fd);
      delete channel;
      return 0;
    };
    library_.create_cq = &CreateCompletionQueue;
    library_.destroy_cq = [](ibv_cq* queue) {
      delete static_cast<CompletionQueue*>(queue);
      return 0;
    };
    library_.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
    library_.ack_cq_events = [](ibv_cq*, unsigned) {};
    library_.create_qp = &CreateQueuePair;
    library_.modify_qp = &ModifyQueuePair;
    library_.destroy_qp = &DestroyQueuePair;
    library_.wc_status_str = [](ibv_wc_status) { return "a status of the fake"; };
    library_.get_async_event = &GetAsyncEvent;
    library_.ack_async_event = [](ibv_async_event*) {};
    library_.event_type_str = [](ibv_event_type type) {
      return type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "an event of the fake";
    };
  }

  static inline FakeVerbs* current_ = nullptr;

  VerbsLibrary library_;
  ibv_device device_{};
  ibv_device* list_[2] = {&device_, nullptr};
  int async_ = -1;  // The events' descriptor, while it is open.
  std::atomic<uint32_t> last_key_{0};

  std::mutex mutex_;  // Protects what follows, and the public vectors.
  uint32_t last_number_ = 0;
  std::map<uint32_t, QueuePair*> queue_pairs_;

  std::mutex events_mutex_;  // Protects what follows: the watcher is a thread of its own.
  std::deque<ibv_async_event> events_;
  bool gone_ = false;
};

}  // namespace dlsm
