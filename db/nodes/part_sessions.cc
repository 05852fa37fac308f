#include "db/nodes/part_sessions.h"

#include "util/status_macros.h"

namespace dlsm {

Status OpenFirstShard(const Options& options, const std::string& name, MemoryNodeLink* link,
                      SessionKeeper* keeper, std::unique_ptr<MemoryNodeSession>* session) {
  DLSM_RETURN_IF_ERROR(MemoryNodeSession::Open(options, name, &link->rpc(), session));
  (*session)->TransfersGoOver(link->fabric());
  DLSM_RETURN_IF_ERROR((*session)->TakeOwnership(&link->queue_pairs()));
  keeper->Add(**session, &link->rpc());
  return Status::OK();
}

Status OpenPart(const Options& options, const std::string& name, MemoryNodeLink* link,
                const MemoryNodeSession& first, SessionKeeper* keeper,
                std::unique_ptr<MemoryNodeSession>* session) {
  constexpr int kAttemptsMax = 10;  // Each but the last has been lost to another former owner.
  Status taken;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    DLSM_RETURN_IF_ERROR(MemoryNodeSession::Open(options, name, &link->rpc(), session));
    (*session)->TransfersGoOver(link->fabric());
    DLSM_RETURN_IF_ERROR(first.CheckOwned());
    taken = (*session)->TakeOwnership(&link->queue_pairs());
    if (taken.ok()) {
      keeper->Add(**session, &link->rpc());
      break;
    }
    DLSM_RETURN_IF_ERROR(first.CheckOwned());  // Which says more of it, if that is the cause.
    if (!taken.IsBusy()) break;
  }
  return taken;
}

}  // namespace dlsm
