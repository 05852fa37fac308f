#include "table/fetch_resident.h"

#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kResidentBytesMax = uint64_t{1} << 30;

}  // namespace

Status FetchResident(const TableMeta& meta, QueuePairs* queue_pairs,
                     const TableReadOptions& options, std::string* resident) {
  const RemoteSpan span = meta.resident_span();
  if (span.bytes > kResidentBytesMax) {
    return Status::Corruption("a table claims an index and filter of " +
                              std::to_string(span.bytes) + " bytes");
  }
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(options.limited
                           ? queue_pairs->ForLimitedRead(span.node, options, &queue_pair)
                           : queue_pairs->ForThisThread(span.node, &queue_pair));
  if (const char* direct = queue_pair->Direct(span); direct != nullptr) {
    queue_pair->CountDirectRead(span.bytes, options.purpose);
    resident->assign(direct, span.bytes);
    return Status::OK();
  }
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(queue_pairs->NewBuffer(span.node, span.bytes, &buffer));
  Ticket ticket{};
  DLSM_RETURN_IF_ERROR(
      queue_pair->PostRead(span, buffer.span().Sub(0, span.bytes), options.purpose, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, options.WaitEnds()));
  resident->assign(buffer.data(), span.bytes);
  return Status::OK();
}

}  // namespace dlsm
