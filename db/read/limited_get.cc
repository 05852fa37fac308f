// PointReader::Get() within the limits of a read tier or a deadline. It is not part of the hot
// path's file (script/hot_path.cmake): there, further callers would have a compiler inline less
// into Get().
#include "db/read/point_reader.h"
#include "db/tree/version.h"
#include "util/status_macros.h"

namespace dlsm {

Status PointReader::GetWithinLimits(const ReadView& view, const LookupKey& key,
                                    const TableReadOptions& options, const Statistics::Mine& counts,
                                    LookupResult* result) const {
  DLSM_RETURN_IF_ERROR(options.CheckDeadline());
  if (AskMemtables(view, key, counts, result)) return Status::OK();
  Status status;
  const auto visit = [&](const Table& table, bool filtered, TableProbe* probe) {
    status = table.reader().MakeReady(options);
    if (!status.ok()) return false;
    const TableAnswer answer = AskTable(table, filtered, key, options, counts, probe, result);
    if (answer != TableAnswer::kFetch) return answer == TableAnswer::kAbsent;
    status = FetchRecord(table, key, *probe, options, counts, result);
    return status.ok() && result->state == LookupState::kAbsent;
  };
  const uint64_t excluded = view.version->ForEachCandidate(key, visit, /*finds=*/false);
  if (excluded > 0) counts.Add(Ticker::kFilterUseful, excluded);
  return status;
}

}  // namespace dlsm
