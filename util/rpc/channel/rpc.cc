#include "util/rpc/channel/rpc.h"

#include <fmt/core.h>

namespace dlsm {

const char* MethodName(Method method) {
  switch (method) {
    case Method::kOpenDatabase:
      return "open_database";
    case Method::kHeartbeat:
      return "heartbeat";
    case Method::kGrant:
      return "grant";
    case Method::kFree:
      return "free";
    case Method::kMerge:
      return "merge";
    case Method::kPutManifest:
      return "put_manifest";
    case Method::kCloseDatabase:
      return "close_database";
    case Method::kDestroyDatabase:
      return "destroy_database";
    case Method::kListDatabases:
      return "list_databases";
    case Method::kNodeStatistics:
      return "node_statistics";
    case Method::kSetMergeSchedule:
      return "set_merge_schedule";
    case Method::kSetQuota:
      return "set_quota";
    case Method::kOpenReader:
      return "open_reader";
    case Method::kReaderHeartbeat:
      return "reader_heartbeat";
    case Method::kCloseReader:
      return "close_reader";
    case Method::kRenewSessions:
      return "renew_sessions";
    case Method::kPersist:
      return "persist";
  }
  return "unknown";
}

Status OtherBoot(const std::string& node, bool has_contents) {
  return Status::IOError(fmt::format(
      "{} was restarted and {}; open the database again", node,
      has_contents ? "has its contents still, but ended all sessions" : "its memory is lost"));
}

}  // namespace dlsm
