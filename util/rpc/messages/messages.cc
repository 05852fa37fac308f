#include "util/rpc/messages/messages.h"

#include <limits>

#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

//   bool     1 byte, 0 or 1
//   integer  4 or 8 bytes, little-endian
//   string   varint32 length, bytes
//   span     node 4, region 4, offset 8, bytes 8
//   list     count 4, elements
constexpr size_t kSpanBytes = 24;

void PutBool(std::string* to, bool value) { to->push_back(value ? '\1' : '\0'); }

void PutSpan(std::string* to, const RemoteSpan& span) {
  PutFixed32(to, static_cast<uint32_t>(span.node));
  PutFixed32(to, static_cast<uint32_t>(span.region));
  PutFixed64(to, span.offset);
  PutFixed64(to, span.bytes);
}

void PutSpans(std::string* to, const std::vector<RemoteSpan>& spans) {
  PutFixed32(to, static_cast<uint32_t>(spans.size()));
  for (const RemoteSpan& span : spans) PutSpan(to, span);
}

void PutSession(std::string* to, SessionId session) {
  PutFixed64(to, static_cast<uint64_t>(session));
}

void PutIncarnation(std::string* to, DatabaseIncarnation incarnation) {
  PutFixed64(to, static_cast<uint64_t>(incarnation));
}

// Takes fields off a message one after the other; the first that is missing or wrong spoils it.
class Fields {
 public:
  explicit Fields(const Slice& bytes) : rest_(bytes) {}

  Fields& Fixed32(uint32_t* value) { return Require(ok_ && GetFixed32(&rest_, value)); }
  Fields& Fixed64(uint64_t* value) { return Require(ok_ && GetFixed64(&rest_, value)); }
  // Up to ten years: times that far from now still fit into every clock.
  Fields& Lease(uint64_t* ms) {
    constexpr uint64_t kMost = uint64_t{10} * 365 * 24 * 3600 * 1000;
    return Require(ok_ && GetFixed64(&rest_, ms) && *ms <= kMost);
  }
  Fields& Bool(bool* value) {
    uint8_t byte = 0;
    Require(ok_ && GetFixed8(&rest_, &byte) && byte <= 1);
    *value = byte != 0;
    return *this;
  }
  Fields& String(std::string* value) {
    Slice bytes;
    if (Require(ok_ && GetLengthPrefixed(&rest_, &bytes)).ok_) {
      value->assign(bytes.data(), bytes.size());
    }
    return *this;
  }
  Fields& Session(SessionId* session) {
    uint64_t value = 0;
    Fixed64(&value);
    *session = SessionId{value};
    return *this;
  }
  Fields& Reader(ReaderId* reader) {
    uint64_t value = 0;
    Fixed64(&value);
    *reader = ReaderId{value};
    return *this;
  }
  Fields& Incarnation(DatabaseIncarnation* incarnation) {
    uint64_t value = 0;
    Fixed64(&value);
    *incarnation = DatabaseIncarnation{value};
    return *this;
  }
  Fields& Load(MergeLoad* load) { return Require(ok_ && load->DecodeFrom(&rest_)); }
  Fields& Answers(MergeAnswers* answers) { return Require(ok_ && answers->DecodeFrom(&rest_)); }
  Fields& Span(RemoteSpan* span) {
    uint32_t node = 0;
    uint32_t region = 0;
    Fixed32(&node).Fixed32(&region).Fixed64(&span->offset).Fixed64(&span->bytes);
    span->node = NodeId{node};
    span->region = RegionId{region};
    return Require(ok_ && span->bytes <= std::numeric_limits<uint64_t>::max() - span->offset);
  }
  // The count of a list whose elements have at least `element_bytes` each: so a list is never made
  // larger than what has arrived.
  Fields& Count(size_t element_bytes, uint32_t* count) {
    Fixed32(count);
    return Require(ok_ && *count <= rest_.size() / element_bytes);
  }
  Fields& Spans(std::vector<RemoteSpan>* spans) {
    uint32_t count = 0;
    spans->clear();
    if (!Count(kSpanBytes, &count).ok_) return *this;
    spans->resize(count);
    for (RemoteSpan& span : *spans) Span(&span);
    return *this;
  }

  bool ok() const { return ok_; }
  Status Finish(const char* message) const {
    if (ok_ && rest_.empty()) return Status::OK();
    return Status::Corruption(message, ok_ ? "trailing bytes" : "cut short or malformed");
  }

 private:
  Fields& Require(bool condition) {
    ok_ = condition;
    return *this;
  }

  Slice rest_;
  bool ok_ = true;
};

}  // namespace

std::string OpenDatabaseRequest::Encode() const {
  std::string bytes;
  PutLengthPrefixed(&bytes, name);
  PutBool(&bytes, create_if_missing);
  PutBool(&bytes, error_if_exists);
  PutBool(&bytes, take_over);
  PutSession(&bytes, claimed);
  return bytes;
}

Status OpenDatabaseRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .String(&name)
      .Bool(&create_if_missing)
      .Bool(&error_if_exists)
      .Bool(&take_over)
      .Session(&claimed)
      .Finish("request to open a database");
}

std::string OpenDatabaseReply::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutBool(&bytes, existed);
  PutFixed64(&bytes, lease_ms);
  PutFixed64(&bytes, manifest_version);
  PutLengthPrefixed(&bytes, manifest);
  PutSpan(&bytes, header);
  PutFixed64(&bytes, ownership_before);
  PutFixed64(&bytes, ownership_word);
  PutFixed64(&bytes, quota_bytes);
  return bytes;
}

Status OpenDatabaseReply::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Session(&session)
      .Bool(&existed)
      .Lease(&lease_ms)
      .Fixed64(&manifest_version)
      .String(&manifest)
      .Span(&header)
      .Fixed64(&ownership_before)
      .Fixed64(&ownership_word)
      .Fixed64(&quota_bytes)
      .Finish("reply to open a database");
}

std::string HeartbeatRequest::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutFixed64(&bytes, publications_from);
  answers.EncodeTo(&bytes);
  return bytes;
}

Status HeartbeatRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Session(&session)
      .Fixed64(&publications_from)
      .Answers(&answers)
      .Finish("heartbeat");
}

std::string HeartbeatReply::Encode() const {
  std::string bytes;
  merges.EncodeTo(&bytes);
  PutFixed64(&bytes, free_bytes);
  PutFixed64(&bytes, grantable_bytes);
  PutBool(&bytes, others_want_room);
  PutBool(&bytes, former_reaches);
  return bytes;
}

Status HeartbeatReply::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Load(&merges)
      .Fixed64(&free_bytes)
      .Fixed64(&grantable_bytes)
      .Bool(&others_want_room)
      .Bool(&former_reaches)
      .Finish("reply to a heartbeat");
}

std::string RenewSessionsRequest::Encode() const {
  std::string bytes;
  PutFixed32(&bytes, static_cast<uint32_t>(sessions.size()));
  for (const SessionId session : sessions) PutSession(&bytes, session);
  return bytes;
}

Status RenewSessionsRequest::Decode(const Slice& bytes) {
  constexpr size_t kSessionBytes = 8;
  Fields fields(bytes);
  uint32_t count = 0;
  sessions.clear();
  if (fields.Count(kSessionBytes, &count).ok()) {
    if (count > kSessionsMax) return Status::Corruption("too many sessions are to be renewed");
    sessions.resize(count);
  }
  for (SessionId& session : sessions) fields.Session(&session);
  return fields.Finish("request to renew sessions");
}

std::string RenewSessionsReply::Encode() const {
  std::string bytes;
  PutFixed32(&bytes, static_cast<uint32_t>(sessions.size()));
  for (const RenewedSession& session : sessions) {
    PutBool(&bytes, session.renewed);
    PutFixed64(&bytes, session.free_bytes);
    PutFixed64(&bytes, session.grantable_bytes);
    PutBool(&bytes, session.others_want_room);
  }
  return bytes;
}

Status RenewSessionsReply::Decode(const Slice& bytes) {
  constexpr size_t kSessionBytes = 18;
  Fields fields(bytes);
  uint32_t count = 0;
  sessions.clear();
  if (fields.Count(kSessionBytes, &count).ok()) sessions.resize(count);
  for (RenewedSession& session : sessions) {
    fields.Bool(&session.renewed)
        .Fixed64(&session.free_bytes)
        .Fixed64(&session.grantable_bytes)
        .Bool(&session.others_want_room);
  }
  return fields.Finish("reply to renew sessions");
}

std::string GrantRequest::Encode() const {
  std::string to;
  PutSession(&to, session);
  PutFixed64(&to, number);
  PutFixed64(&to, bytes);
  PutFixed64(&to, bytes_min);
  PutBool(&to, for_merge);
  return to;
}

Status GrantRequest::Decode(const Slice& from) {
  return Fields(from)
      .Session(&session)
      .Fixed64(&number)
      .Fixed64(&bytes)
      .Fixed64(&bytes_min)
      .Bool(&for_merge)
      .Finish("request for a grant");
}

std::string GrantReply::Encode() const {
  std::string bytes;
  PutSpan(&bytes, extent);
  return bytes;
}

Status GrantReply::Decode(const Slice& bytes) {
  return Fields(bytes).Span(&extent).Finish("reply with a grant");
}

std::string FreeRequest::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutFixed64(&bytes, number);
  PutFixed64(&bytes, unnamed_from);
  PutSpans(&bytes, spans);
  return bytes;
}

Status FreeRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Session(&session)
      .Fixed64(&number)
      .Fixed64(&unnamed_from)
      .Spans(&spans)
      .Finish("request to free");
}

std::string PersistRequest::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutSpans(&bytes, spans);
  return bytes;
}

Status PersistRequest::Decode(const Slice& bytes) {
  DLSM_RETURN_IF_ERROR(Fields(bytes).Session(&session).Spans(&spans).Finish("request to persist"));
  if (spans.size() <= kSpansMax) return Status::OK();
  return Status::Corruption("malformed request to persist", "it has too many spans");
}

std::string PutManifestRequest::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutFixed64(&bytes, version);
  PutLengthPrefixed(&bytes, manifest);
  PutSpans(&bytes, live);
  return bytes;
}

Status PutManifestRequest::Decode(const Slice& bytes) {
  return Fields(bytes).Session(&session).Fixed64(&version).String(&manifest).Spans(&live).Finish(
      "request to put a manifest");
}

std::string CloseDatabaseRequest::Encode() const {
  std::string bytes;
  PutSession(&bytes, session);
  PutFixed64(&bytes, unnamed_from);
  return bytes;
}

Status CloseDatabaseRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Session(&session)
      .Fixed64(&unnamed_from)
      .Finish("request to close a database");
}

std::string DestroyDatabaseRequest::Encode() const {
  std::string bytes;
  PutLengthPrefixed(&bytes, name);
  PutIncarnation(&bytes, incarnation);
  PutBool(&bytes, if_unused);
  PutFixed64(&bytes, manifest_version_max);
  return bytes;
}

Status DestroyDatabaseRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .String(&name)
      .Incarnation(&incarnation)
      .Bool(&if_unused)
      .Fixed64(&manifest_version_max)
      .Finish("request to destroy a database");
}

std::string ListDatabasesReply::Encode() const {
  std::string to;
  PutFixed32(&to, static_cast<uint32_t>(databases.size()));
  for (const Entry& entry : databases) {
    PutLengthPrefixed(&to, entry.name);
    PutFixed64(&to, entry.bytes);
    PutFixed64(&to, entry.quota_bytes);
    PutBool(&to, entry.open);
    PutIncarnation(&to, entry.incarnation);
  }
  return to;
}

Status ListDatabasesReply::Decode(const Slice& bytes) {
  constexpr size_t kEntryBytesMin = 26;
  Fields fields(bytes);
  uint32_t count = 0;
  fields.Count(kEntryBytesMin, &count);
  databases.clear();
  for (uint32_t i = 0; fields.ok() && i < count; ++i) {
    Entry& entry = databases.emplace_back();
    fields.String(&entry.name)
        .Fixed64(&entry.bytes)
        .Fixed64(&entry.quota_bytes)
        .Bool(&entry.open)
        .Incarnation(&entry.incarnation);
  }
  return fields.Finish("list of databases");
}

std::string SetQuotaRequest::Encode() const {
  std::string to;
  PutLengthPrefixed(&to, name);
  PutFixed64(&to, bytes);
  return to;
}

Status SetQuotaRequest::Decode(const Slice& from) {
  return Fields(from).String(&name).Fixed64(&bytes).Finish("request to set a quota");
}

std::string OpenReaderRequest::Encode() const {
  std::string bytes;
  PutFixed32(&bytes, static_cast<uint32_t>(databases.size()));
  for (const std::string& name : databases) PutLengthPrefixed(&bytes, name);
  return bytes;
}

Status OpenReaderRequest::Decode(const Slice& bytes) {
  Fields fields(bytes);
  uint32_t count = 0;
  fields.Count(/*element_bytes=*/1, &count);
  databases.clear();
  if (count > kDatabasesMax) {
    return Status::Corruption("malformed request to open a reader", "it reads too many databases");
  }
  for (uint32_t i = 0; fields.ok() && i < count; ++i) fields.String(&databases.emplace_back());
  return fields.Finish("request to open a reader");
}

std::string OpenReaderReply::Encode() const {
  std::string bytes;
  PutFixed64(&bytes, static_cast<uint64_t>(reader));
  PutFixed64(&bytes, lease_ms);
  PutFixed64(&bytes, whole_from);
  PutSpan(&bytes, header);
  return bytes;
}

Status OpenReaderReply::Decode(const Slice& bytes) {
  return Fields(bytes)
      .Reader(&reader)
      .Lease(&lease_ms)
      .Fixed64(&whole_from)
      .Span(&header)
      .Finish("reply to open a reader");
}

std::string ReaderHeartbeatRequest::Encode() const {
  std::string bytes;
  PutFixed64(&bytes, static_cast<uint64_t>(reader));
  PutFixed64(&bytes, oldest);
  return bytes;
}

Status ReaderHeartbeatRequest::Decode(const Slice& bytes) {
  return Fields(bytes).Reader(&reader).Fixed64(&oldest).Finish("heartbeat of a reader");
}

std::string ReaderHeartbeatReply::Encode() const {
  std::string bytes;
  PutBool(&bytes, must_move);
  return bytes;
}

Status ReaderHeartbeatReply::Decode(const Slice& bytes) {
  return Fields(bytes).Bool(&must_move).Finish("reply to the heartbeat of a reader");
}

std::string CloseReaderRequest::Encode() const {
  std::string bytes;
  PutFixed64(&bytes, static_cast<uint64_t>(reader));
  return bytes;
}

Status CloseReaderRequest::Decode(const Slice& bytes) {
  return Fields(bytes).Reader(&reader).Finish("request to close a reader");
}

std::string SetMergeScheduleRequest::Encode() const {
  std::string bytes;
  PutLengthPrefixed(&bytes, schedule);
  PutBool(&bytes, sets_budget);
  PutFixed64(&bytes, bytes_per_second);
  return bytes;
}

Status SetMergeScheduleRequest::Decode(const Slice& bytes) {
  return Fields(bytes)
      .String(&schedule)
      .Bool(&sets_budget)
      .Fixed64(&bytes_per_second)
      .Finish("request to set the merge schedule");
}

std::string SetMergeScheduleReply::Encode() const {
  std::string bytes;
  PutLengthPrefixed(&bytes, schedule);
  PutFixed64(&bytes, bytes_per_second);
  return bytes;
}

Status SetMergeScheduleReply::Decode(const Slice& bytes) {
  return Fields(bytes).String(&schedule).Fixed64(&bytes_per_second).Finish("merge schedule");
}

std::string NodeStatisticsReply::Encode() const {
  std::string bytes;
  for (const uint64_t value :
       {capacity_bytes, used_bytes, largest_free_bytes, databases, sessions, merges_done,
        merges_running, merges_queued, merge_bytes_waiting, merge_bytes_per_second,
        merge_bytes_read, merge_bytes_written, merge_micros, peer_bytes_read, merge_pauses,
        merge_paused_micros, cpu_micros, peak_rss_bytes}) {
    PutFixed64(&bytes, value);
  }
  return bytes;
}

Status NodeStatisticsReply::Decode(const Slice& bytes) {
  Fields fields(bytes);
  for (uint64_t* value :
       {&capacity_bytes, &used_bytes, &largest_free_bytes, &databases, &sessions, &merges_done,
        &merges_running, &merges_queued, &merge_bytes_waiting, &merge_bytes_per_second,
        &merge_bytes_read, &merge_bytes_written, &merge_micros, &peer_bytes_read, &merge_pauses,
        &merge_paused_micros, &cpu_micros, &peak_rss_bytes}) {
    fields.Fixed64(value);
  }
  return fields.Finish("statistics of a memory node");
}

}  // namespace dlsm
