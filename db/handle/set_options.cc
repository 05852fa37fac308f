// Options that change while the database is open.

#include <charconv>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/handle/db_impl.h"
#include "db/handle/properties.h"
#include "db/nodes/memory_node_link.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Nothing: left as it is.
struct ScheduleChange {
  std::optional<MergeSchedule> schedule;
  std::optional<uint64_t> bytes_per_second;

  bool any() const { return schedule.has_value() || bytes_per_second.has_value(); }
};

struct Changes {
  ScheduleChange here;
  ScheduleChange memory_node;
  std::optional<uint64_t> level0_tables_per_merge;
};

Status ParseSchedule(const std::string& name, std::optional<MergeSchedule>* schedule) {
  *schedule = MergeScheduleFromName(name);
  return schedule->has_value() ? Status::OK() : UnknownMergeSchedule(name);
}

Status ParseLimit(const std::string& name, const std::string& text, const char* unit,
                  std::optional<uint64_t>* limit) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Status::InvalidArgument(name + " \"" + text + "\"",
                                   std::string("use a number of ") + unit + "; 0: no limit");
  }
  *limit = value;
  return Status::OK();
}

Status Parse(const std::unordered_map<std::string, std::string>& options, Changes* changes) {
  for (const auto& [name, value] : options) {
    if (name == "merge_scheduler") {
      DLSM_RETURN_IF_ERROR(ParseSchedule(value, &changes->here.schedule));
    } else if (name == "compaction_bandwidth") {
      DLSM_RETURN_IF_ERROR(ParseLimit(name, value, "bytes", &changes->here.bytes_per_second));
    } else if (name == "memory_node_merge_scheduler") {
      DLSM_RETURN_IF_ERROR(ParseSchedule(value, &changes->memory_node.schedule));
    } else if (name == "memory_node_compaction_bandwidth") {
      DLSM_RETURN_IF_ERROR(
          ParseLimit(name, value, "bytes", &changes->memory_node.bytes_per_second));
    } else if (name == "max_level0_tables_per_merge") {
      DLSM_RETURN_IF_ERROR(ParseLimit(name, value, "tables", &changes->level0_tables_per_merge));
    } else {
      return Status::InvalidArgument(
          "option \"" + name + "\" cannot change while the database is open",
          "those that can are merge_scheduler, compaction_bandwidth, memory_node_merge_scheduler, "
          "memory_node_compaction_bandwidth and max_level0_tables_per_merge");
    }
  }
  return Status::OK();
}

// Which makes a memory node's schedule what it was.
SetMergeScheduleRequest BackTo(const SetMergeScheduleReply& was) {
  SetMergeScheduleRequest back;
  back.schedule = was.schedule;
  back.sets_budget = true;
  back.bytes_per_second = was.bytes_per_second;
  return back;
}

// `outcome`: what is in force after that.
Status Failed(const MemoryNodeLink& link, const Status& why, const std::string& outcome) {
  return Status::FromCode(
      why.code(), "memory node " + link.name() + ": " + why.message().ToString() + "; " + outcome);
}

// What is in force when all have been told to go back but these.
std::string OutcomeOf(const std::vector<const MemoryNodeLink*>& untold) {
  if (untold.empty()) return "nothing has changed";
  std::string names;
  for (const MemoryNodeLink* link : untold) names += (names.empty() ? "" : ", ") + link->name();
  return "only the merge schedule of " + names +
         " may have changed: set the options again, or look at dlsm.merge-schedule";
}

}  // namespace

Status DbImpl::SetMemoryNodeSchedule(MemoryNodeLink* link, const SetMergeScheduleRequest& request,
                                     SetMergeScheduleReply* reply) const {
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(
      link->rpc().Call(Method::kSetMergeSchedule, request.Encode(), &reply_bytes,
                       Deadline::In(std::chrono::milliseconds(options_.operation_timeout_ms))));
  return reply->Decode(reply_bytes);
}

// All memory nodes or none, as far as they can be told: where one fails, they get back what they
// had.
Status DbImpl::SetMemoryNodeSchedules(const SetMergeScheduleRequest& request) {
  std::vector<SetMergeScheduleRequest> back;
  for (const auto& link : links_) {
    SetMergeScheduleReply now;
    const Status asked = SetMemoryNodeSchedule(link.get(), SetMergeScheduleRequest(), &now);
    if (!asked.ok()) return Failed(*link, asked, "nothing has changed");
    back.push_back(BackTo(now));
  }
  for (size_t i = 0; i < links_.size(); ++i) {
    SetMergeScheduleReply reply;
    const Status set = SetMemoryNodeSchedule(links_[i].get(), request, &reply);
    if (set.ok()) continue;
    // That one as well, unless it has refused: it may have taken what it has not answered.
    const size_t changed = set.IsInvalidArgument() ? i : i + 1;
    return Failed(*links_[i], set, OutcomeOf(SetMemoryNodesBack(std::span(back).first(changed))));
  }
  return Status::OK();
}

// Those of the first memory nodes, each whatever becomes of the others. Returns the ones that could
// not be told.
std::vector<const MemoryNodeLink*> DbImpl::SetMemoryNodesBack(
    std::span<const SetMergeScheduleRequest> back) const {
  std::vector<const MemoryNodeLink*> untold;
  for (size_t i = 0; i < back.size(); ++i) {
    SetMergeScheduleReply reply;
    if (SetMemoryNodeSchedule(links_[i].get(), back[i], &reply).ok()) continue;
    untold.push_back(links_[i].get());
  }
  return untold;
}

// Memory nodes go first: they may refuse, and then nothing has changed.
Status DbImpl::SetOptions(const std::unordered_map<std::string, std::string>& options) try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  Changes changes;
  DLSM_RETURN_IF_ERROR(Parse(options, &changes));
  if (changes.memory_node.any()) {
    SetMergeScheduleRequest request;
    if (changes.memory_node.schedule.has_value()) {
      request.schedule = MergeScheduleName(*changes.memory_node.schedule);
    }
    request.sets_budget = changes.memory_node.bytes_per_second.has_value();
    request.bytes_per_second = changes.memory_node.bytes_per_second.value_or(0);
    DLSM_RETURN_IF_ERROR(SetMemoryNodeSchedules(request));
  }
  if (changes.here.schedule.has_value()) scheduler_.SetSchedule(*changes.here.schedule);
  if (changes.here.bytes_per_second.has_value()) {
    scheduler_.SetBudget(*changes.here.bytes_per_second);
  }
  if (changes.level0_tables_per_merge.has_value()) {
    const auto tables = static_cast<size_t>(*changes.level0_tables_per_merge);
    for (const auto& shard : shards_) shard->background().LimitLevel0Merges(tables);
  }
  return Status::OK();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

std::string Properties::MergeScheduleInForce() const {
  const MergeSchedulerOptions here = db_.scheduler_.options();
  std::string text = std::string("merge_scheduler ") + MergeScheduleName(here.schedule) +
                     "\ncompaction_bandwidth " + std::to_string(here.bytes_per_second) + "\n";
  return text + ForEachNode(LinksOf(), [this](MemoryNodeLink& link) {
           SetMergeScheduleReply there;
           const Status asked = db_.SetMemoryNodeSchedule(&link, SetMergeScheduleRequest(), &there);
           if (!asked.ok()) return "memory-node-error " + asked.ToString() + "\n";
           return "memory_node_merge_scheduler " + there.schedule +
                  "\nmemory_node_compaction_bandwidth " + std::to_string(there.bytes_per_second) +
                  "\n";
         });
}

}  // namespace dlsm
