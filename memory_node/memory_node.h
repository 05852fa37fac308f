// A memory node: one region of memory, the databases in it, and the merges that run next to them.
// The Server process has one behind its RpcServer, an application that embeds one calls it through
// a loopback.
//
// Its contents (ContentsId) are what the region and the accounts hold; its boot (BootId) is this
// object. Without files, a Server that is started again is empty, so it has other contents as well
// as another boot. Clients learn that from the hello (NodeRpcClient), peers that merge from the
// boot in MergePeer.
//
// With files (NodeStore), the accounts are written behind the calls that change them, and a call is
// answered when that is done (store/store_keeper.h). A process that is started again goes on with
// the contents; where nothing of the memory can be lost, it goes on with the boot, too, and clients
// notice nothing but that they could not call for a while.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/access_revoker.h"
#include "memory_node/accounts/database_table.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/merges/merge_service.h"
#include "memory_node/merges/peer_nodes.h"
#include "memory_node/store/node_files.h"
#include "memory_node/store/store_keeper.h"
#include "memory_node/store/stored_state.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// What a memory node has on disk, and begins with.
struct NodeStore {
  std::unique_ptr<NodeFiles> files;
  StoredContents contents;
  StoredState state;
  StoredRows rows;       // The same, as the files have it.
  bool resumed = false;  // Clients of the process before go on, and with them its boot.
};

struct MemoryNodeOptions {
  NodeId node{};
  // The contents that the region holds already, from an earlier boot. Unset: the region is empty,
  // and the memory node draws an id for what it will hold.
  std::optional<ContentsId> contents;
  // Whether what is stored in the region outlives the process, and, once it is persisted, a power
  // failure.
  bool has_files = false;
  // See PersistenceId. Unset: the contents are what persists, and no more.
  std::optional<PersistenceId> persistence;
  // Has these spans of the region in the files, and then calls `done` once: now or later, from any
  // thread, and before the memory node ends. Several calls may be under way. An IOError is final:
  // it is not called again. Is null where there are no files, or a NodeStore has them.
  std::function<void(std::vector<RemoteSpan> spans, std::function<void(const Status&)> done)>
      persist;
  int merge_threads = 2;  // Merges that may run at a time, of all databases together.
  MergeSchedule merge_schedule = MergeSchedule::kGreedy;
  uint64_t merge_bytes_per_second = 0;  // Of input; 0: no limit.
  // See DatabaseTableOptions.
  std::chrono::nanoseconds lease = std::chrono::seconds(10);
  std::chrono::nanoseconds grace = std::chrono::seconds(2);
  std::optional<uint64_t> merge_reserve_bytes;  // Empty: DefaultMergeReserve().
  // How it reaches other memory nodes, whose tables it merges with its own.
  Credentials credentials;
  VerbsOptions verbs;
  std::shared_ptr<NodeConnector> node_connector;  // Null: the network.
  std::string full_remedy = "start Server with more memory";
  bool clients_map_memory = false;
  uint64_t database_quota_bytes = 0;
  ExtentOwners* extent_owners = nullptr;  // See DatabaseTableOptions.
  std::function<DatabaseTableOptions::Clock::time_point()> clock = DatabaseTableOptions::Clock::now;
  std::function<bool()> refuse_extent;        // See DatabaseTableOptions.
  uint64_t free_bytes_told_max = UINT64_MAX;  // See DatabaseTableOptions.
};

// Thread-safe.
class MemoryNode final : public RpcHandler {
 public:
  // Draws a boot, and contents unless the options say which these are.
  static Status Start(const MemoryNodeOptions& options, std::unique_ptr<ExportedRegion> region,
                      std::unique_ptr<MemoryNode>* node);
  // The same with files, whose region is `region`.
  static Status Start(const MemoryNodeOptions& options, NodeStore store,
                      std::unique_ptr<ExportedRegion> region, std::unique_ptr<MemoryNode>* node);
  // No call is under way, but answers may be outstanding: they are given first.
  ~MemoryNode() override;

  void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) override;
  void Disconnected(const RpcPeer& peer) override;

  NodeId id() const { return options_.node; }
  ContentsId contents() const { return contents_; }
  BootId boot() const { return boot_; }
  PersistenceId persistence() const { return persistence_; }
  bool has_files() const { return options_.has_files; }
  ExportedRegion& region() { return *region_; }
  DatabaseTable& databases() { return databases_; }
  // To be told how clients' access is taken away before the first of them comes, and stopped before
  // that can no longer be done.
  AccessRevoker& revoker() { return revoker_; }

  NodeStatisticsReply Statistics() const;
  uint64_t calls(Method method) const;
  // Of the requests of these calls.
  uint64_t request_bytes(Method method) const;
  size_t free_extents() const { return databases_.free_extents(); }
  AccessRevoker::Statistics revocations() const { return revoker_.statistics(); }
  uint64_t quarantined_bytes() const { return databases_.quarantined_bytes(); }
  uint64_t take_overs() const { return databases_.take_overs(); }
  // Null without files.
  const StoreKeeper* store() const { return store_.get(); }
  DatabaseTable::RefusedGrants refused_grants() const { return databases_.refused_grants(); }

 private:
  static MergeSchedulerOptions ScheduleOf(const MemoryNodeOptions& options);
  MemoryNode(const MemoryNodeOptions& options, ContentsId contents, BootId boot,
             PersistenceId persistence, NodeStore store, std::unique_ptr<ExportedRegion> region);

  void KeepHouse();

  // `done` to be called when what the call has changed is stored.
  RpcDone AfterStored(Method method, RpcDone done);

  // Methods that are more than one call of the table of databases: memory_node_calls.cc.
  Status Heartbeat(const RpcPeer& peer, const HeartbeatRequest& request, HeartbeatReply* reply);
  Status RenewSessions(const RpcPeer& peer, const RenewSessionsRequest& request,
                       RenewSessionsReply* reply);
  ListDatabasesReply ListFor(const RpcPeer& peer) const;
  Status SetMergeSchedule(const RpcPeer& peer, const SetMergeScheduleRequest& request,
                          SetMergeScheduleReply* reply);
  void Close(const RpcPeer& peer, const Slice& request, const RpcDone& done);
  void Persist(const RpcPeer& peer, const Slice& request, const RpcDone& done);
  Status CheckPersistable(const PersistRequest& request) const;
  Status AfterPersist(const Status& persisted) LOCKS_EXCLUDED(mutex_);

  const MemoryNodeOptions options_;
  const ContentsId contents_;
  const BootId boot_;
  const PersistenceId persistence_;
  const std::unique_ptr<ExportedRegion> region_;
  OwnMemory memory_;
  const std::unique_ptr<StoreKeeper> store_;  // Null without files. Stopped before the table goes.
  // See MemoryNodeOptions::persist.
  const std::function<void(std::vector<RemoteSpan> spans, std::function<void(const Status&)> done)>
      persist_;
  AccessRevoker revoker_;  // Stopped before the table that it tells outcomes to goes.
  DatabaseTable databases_;
  PeerNodes peers_;
  MergeService merges_;
  // Relaxed: counts order nothing.
  std::array<std::atomic<uint64_t>, kMethodCount> calls_{};
  std::array<std::atomic<uint64_t>, kMethodCount> request_bytes_{};

  mutable port::Mutex mutex_;
  port::CondVar stop_{mutex_};
  bool stopping_ GUARDED_BY(mutex_) = false;
  Status files_failed_ GUARDED_BY(mutex_);  // Is OK as long as they have not.
  port::Thread housekeeper_;                // Last: it uses all of the above.
};

}  // namespace dlsm
