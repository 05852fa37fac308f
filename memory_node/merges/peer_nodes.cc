#include "memory_node/merges/peer_nodes.h"

#include <fmt/core.h>

#include <utility>

#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// More memory nodes than one database has; and a bound on what requests can make this one keep.
constexpr size_t kPeersKept = 64;

std::string NameOf(const MergePeer& peer) { return fmt::format("{}:{}", peer.host, peer.port); }

uint64_t BytesReadOver(PeerNodes::Peer& peer) {
  uint64_t bytes = 0;
  for (const WireCounts& counts : peer.connection().fabric().Totals()) bytes += counts.read_bytes;
  return bytes;
}

// Whether it is what `wanted` says, in the boot that `wanted` names.
bool IsGood(PeerNodes::Peer& peer, const MergePeer& wanted) {
  const FabricPeer& reached = peer.connection().peer();
  return reached.node == wanted.node && reached.boot == wanted.boot &&
         peer.connection().rpc().lost().ok();
}

}  // namespace

// ---- The ways of one merge

Status PeerNodes::Ways::Find(NodeId node, Peer** peer) const {
  const auto found = peers_.find(node);
  if (found == peers_.end()) {
    return Status::InvalidArgument(
        fmt::format("a merge has a table on memory node {}, of which it does not say where it is",
                    static_cast<uint32_t>(node)));
  }
  *peer = found->second.get();
  return Status::OK();
}

Status PeerNodes::Ways::ForThisThread(NodeId node, QueuePair** queue_pair) {
  if (node == own_->node()) return own_->ForThisThread(node, queue_pair);
  Peer* peer = nullptr;
  DLSM_RETURN_IF_ERROR(Find(node, &peer));
  return peer->queue_pairs().ForThisThread(node, queue_pair);
}

Status PeerNodes::Ways::NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) {
  if (node == own_->node()) return own_->NewBuffer(node, bytes, buffer);
  Peer* peer = nullptr;
  DLSM_RETURN_IF_ERROR(Find(node, &peer));
  return peer->queue_pairs().NewBuffer(node, bytes, buffer);
}

// ---- All connections

Status PeerNodes::Connect(const std::vector<MergePeer>& peers, Ways* ways) {
  for (const MergePeer& peer : peers) {
    if (peer.node == config_.node) continue;
    std::shared_ptr<Peer> reached;
    const Status status = Reach(peer, &reached);
    if (!status.ok()) {
      return Status::NotSupported(
          fmt::format("memory node {} cannot read from memory node {}",
                      static_cast<uint32_t>(config_.node), static_cast<uint32_t>(peer.node)),
          status.ToString());
    }
    ways->peers_[peer.node] = std::move(reached);
  }
  return Status::OK();
}

Status PeerNodes::Reach(const MergePeer& peer, std::shared_ptr<Peer>* reached) {
  const std::string name = NameOf(peer);
  std::shared_ptr<Peer> known;
  {
    const port::MutexLock lock(mutex_);
    const auto found = peers_.find(name);
    if (found != peers_.end() && IsGood(*found->second, peer)) known = found->second;
  }
  if (known != nullptr) {
    // A process of the peer's that goes on with its boot knows tokens of clients that have
    // sessions. This memory node has none there, so its token is not good any more.
    QueuePair* queue_pair = nullptr;
    const Status usable = known->queue_pairs().ForThisThread(peer.node, &queue_pair);
    if (usable.ok()) {
      *reached = std::move(known);
      return usable;
    }
    if (!usable.IsIOError()) return usable;
  }
  DLSM_RETURN_IF_ERROR(ConnectTo(peer, reached));
  std::shared_ptr<Peer> replaced;  // Both go after the lock.
  std::vector<std::shared_ptr<Peer>> unused;
  const port::MutexLock lock(mutex_);
  replaced = std::exchange(peers_[name], *reached);
  if (replaced != nullptr) bytes_read_dropped_ += BytesReadOver(*replaced);
  unused = TakeUnusedLocked(kPeersKept);
  return Status::OK();
}

Status PeerNodes::ConnectTo(const MergePeer& peer, std::shared_ptr<Peer>* made) const {
  NodeConnectionOptions options;
  options.credentials = config_.credentials;
  options.fabric.verbs = config_.verbs;
  options.client_name = fmt::format("memory node {}", static_cast<uint32_t>(config_.node));
  std::unique_ptr<NodeConnection> connection;
  const NodeAddress address{peer.host, peer.port};
  const Deadline deadline = Deadline::In(config_.timeout);
  DLSM_RETURN_IF_ERROR(config_.connector != nullptr
                           ? config_.connector->Connect(address, options, deadline, &connection)
                           : ConnectNodeAuto(address, options, deadline, &connection));
  auto reached = std::make_shared<Peer>(std::move(connection), config_.timeout);
  if (!IsGood(*reached, peer)) {
    const FabricPeer& found = reached->connection().peer();
    if (found.node != peer.node) {
      return Status::InvalidArgument(
          fmt::format("{} is memory node {} from here, not memory node {}", NameOf(peer),
                      static_cast<uint32_t>(found.node), static_cast<uint32_t>(peer.node)),
          "give memory nodes addresses that mean the same everywhere");
    }
    DLSM_RETURN_IF_ERROR(reached->connection().rpc().lost());
    return Status::IOError(
        fmt::format("memory node {} at {} is in another boot than the request for the merge names",
                    static_cast<uint32_t>(peer.node), NameOf(peer)),
        "open the database again");
  }
  Log().Info("memory node {} at {} is reached by {}", static_cast<uint32_t>(peer.node),
             NameOf(peer), reached->connection().fabric().Describe());
  *made = std::move(reached);
  return Status::OK();
}

void PeerNodes::Forget(const Ways& ways) {
  std::vector<std::shared_ptr<Peer>> forgotten;  // Go after the lock.
  const port::MutexLock lock(mutex_);
  for (auto next = peers_.begin(); next != peers_.end();) {
    const auto current = next++;
    const auto way = ways.peers_.find(current->second->connection().peer().node);
    if (way == ways.peers_.end() || way->second != current->second) continue;
    bytes_read_dropped_ += BytesReadOver(*current->second);
    forgotten.push_back(std::move(current->second));
    peers_.erase(current);
  }
}

std::vector<std::shared_ptr<PeerNodes::Peer>> PeerNodes::TakeUnusedLocked(size_t kept) {
  std::vector<std::shared_ptr<Peer>> unused;
  for (auto next = peers_.begin(); next != peers_.end() && peers_.size() > kept;) {
    const auto current = next++;
    if (current->second.use_count() > 1) continue;
    bytes_read_dropped_ += BytesReadOver(*current->second);
    unused.push_back(std::move(current->second));
    peers_.erase(current);
  }
  return unused;
}

uint64_t PeerNodes::bytes_read() const {
  const port::MutexLock lock(mutex_);
  uint64_t bytes = bytes_read_dropped_;
  for (const auto& [name, peer] : peers_) bytes += BytesReadOver(*peer);
  return bytes;
}

}  // namespace dlsm
