// Every request and reply but those of a merge (table/merge_messages.h). All fields are fixed-width
// little-endian integers or length-prefixed strings; see Encode for each layout. Decode checks
// every bound, refuses trailing bytes, and leaves *this unspecified unless it returns OK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/messages/merge_answers.h"
#include "util/rpc/messages/merge_load.h"

namespace dlsm {

// One open handle of one database. A memory node gives it out at open; it ends at close, or when
// its lease ends after its process fell silent.
enum class SessionId : uint64_t {};

// One follower's leave to read databases at one memory node: memory that it may still read is kept
// for it. A memory node gives it out; it ends at close, or when its lease ends.
enum class ReaderId : uint64_t {};

// Which database of its name a memory node has: drawn when one is made, so that it is another one
// when that has gone and the next has its name. Never 0. No secret: it gives no right to anything.
enum class DatabaseIncarnation : uint64_t {};

struct OpenDatabaseRequest {
  static constexpr size_t kNameBytesMax = 1024;

  std::string name;  // Not empty.
  bool create_if_missing = false;
  bool error_if_exists = false;
  // From whoever has it open: the session is a claim until its word is in place.
  bool take_over = false;
  // Not 0: the session of an earlier reply to a request with this name, whose word the client has
  // put in place. Busy naming who has it if another word is there.
  SessionId claimed{};

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct OpenDatabaseReply {
  SessionId session{};
  bool existed = false;
  uint64_t lease_ms = 0;          // Any call with the session renews it.
  uint64_t manifest_version = 0;  // 0: none was ever put.
  std::string manifest;
  RemoteSpan header;  // See util/rpc/messages/database_header.h.
  // The ownership word as it is, and the one that the client puts in its place. Then it asks again,
  // with `claimed`: what the database is may be taken from that reply only.
  uint64_t ownership_before = 0;
  uint64_t ownership_word = 0;
  uint64_t quota_bytes = 0;  // At this memory node, of all shards together; 0: none.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct HeartbeatRequest {
  static constexpr uint64_t kPublicationsUnknown = UINT64_MAX;

  SessionId session{};
  // This handle's first publication has this number or a later one; earlier publications are not
  // its own. While the handle is being opened it does not know.
  uint64_t publications_from = 0;
  MergeAnswers answers{};  // To the session's merges.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct HeartbeatReply {
  MergeLoad merges;
  // Of the memory node, within the database's quota; what is kept for merges included, and without.
  uint64_t free_bytes = 0;
  uint64_t grantable_bytes = 0;
  // Others have lately been refused room of which this database has a part.
  bool others_want_room = false;
  // A client whose session with this database has ended may still write there one-sided: its access
  // is being taken away. Where memory is mapped, it cannot be.
  bool former_reaches = false;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Renews the leases of sessions that have nothing else to say, those of all idle handles of a
// process together, whichever connection it comes over. It says that the process lives, and no
// more: it makes no session one of this connection, and a session that has lost its own is not
// renewed.
struct RenewSessionsRequest {
  static constexpr size_t kSessionsMax = 4096;

  std::vector<SessionId> sessions;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct RenewedSession {
  // If not, nothing else counts: its client has to ask with a heartbeat.
  bool renewed = false;
  // As in HeartbeatReply.
  uint64_t free_bytes = 0;
  uint64_t grantable_bytes = 0;
  bool others_want_room = false;
};

struct RenewSessionsReply {
  std::vector<RenewedSession> sessions;  // In the order of the request.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Asks for one contiguous extent of `bytes`, or of at least `bytes_min` when that is not to be had.
// Refused with Busy naming the cause when the memory node is full; part of its memory is kept for
// merges, which make room.
//
// Requests of a session are numbered, each with a number of its own, so that one whose answer got
// lost can be sent again: it is given the same extent, as long as it is one of the last
// kGrantsRemembered. 0: not numbered.
struct GrantRequest {
  static constexpr size_t kGrantsRemembered = 64;

  SessionId session{};
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint64_t bytes_min = 0;
  // For the output of a merge on the compute node: it may have what is kept for merges.
  bool for_merge = false;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct GrantReply {
  RemoteSpan extent;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Gives spans back, whoever allocated them: parts of grants or outputs of merges. Spans start at
// multiples of kExtentAlignment (util/memory/extent_allocator.h), and their ends are rounded up to
// one. InvalidArgument, and nothing is freed, if the session does not hold all of them. What the
// last manifest refers to is kept until a manifest no longer does.
//
// Requests of a session are numbered upwards, one after the other, so that one whose answer got
// lost can be sent again: what has a number that was dealt with is OK, and nothing is done. For by
// then the spans may be somebody's again. 0: not numbered.
struct FreeRequest {
  static constexpr uint64_t kPublicationsUnknown = HeartbeatRequest::kPublicationsUnknown;

  SessionId session{};
  uint64_t number = 0;
  // No publication from this one on names the spans. A handle that is being opened does not know:
  // then they are kept for all present readers, until one tells where its own begin.
  uint64_t unnamed_from = 0;
  std::vector<RemoteSpan> spans;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Replaces the database's manifest, atomically. `live` are the spans that the manifest refers to:
// they outlive the session; what else the session holds is freed when it ends. InvalidArgument if
// the session does not hold them.
struct PutManifestRequest {
  SessionId session{};
  uint64_t version = 0;  // Larger than the version before, else Aborted.
  std::string manifest;
  std::vector<RemoteSpan> live;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Returns when what these spans have now is in the memory node's files. Then a power failure does
// not take it. InvalidArgument where the memory node has no files.
//   Aborted   its files have failed: nothing of it is persisted any more, however often it is tried
struct PersistRequest {
  static constexpr size_t kSpansMax = 4096;

  SessionId session{};
  std::vector<RemoteSpan> spans;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct CloseDatabaseRequest {
  SessionId session{};
  // What the session leaves behind no publication names from this one on; kPublicationsUnknown if
  // its client does not know.
  uint64_t unnamed_from = HeartbeatRequest::kPublicationsUnknown;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct DestroyDatabaseRequest {
  std::string name;
  // Not 0: only the one that was listed with it. InvalidArgument if another has its name by now.
  DatabaseIncarnation incarnation{};
  // Only if nobody has come to use it: its manifest refers to nothing at this memory node, and is
  // none after this one.
  bool if_unused = false;
  uint64_t manifest_version_max = UINT64_MAX;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct ListDatabasesReply {
  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    uint64_t quota_bytes = 0;  // Of it and the other shards there together; 0: none.
    bool open = false;
    DatabaseIncarnation incarnation{};
  };
  std::vector<Entry> databases;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Limits what a memory node gives to a database, all of its shards there together, until it is
// changed again or the memory node ends. The database need not be there yet.
struct SetQuotaRequest {
  std::string name;
  uint64_t bytes = 0;  // 0: no limit.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Takes up a reader of these databases, which exist; they may be open or not. What any publication
// names that is whole is kept for it.
struct OpenReaderRequest {
  // The shards of a database: more than any has.
  static constexpr uint32_t kDatabasesMax = 1024;

  std::vector<std::string> databases;  // Each once.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct OpenReaderReply {
  ReaderId reader{};
  uint64_t lease_ms = 0;  // From when a heartbeat, or this call, was sent.
  // Publications before this one may name memory that has been freed already; the largest number:
  // so may every one there is.
  uint64_t whole_from = 0;
  RemoteSpan header;  // Of the first of the databases.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Renews the lease. The reader uses no publication before `oldest` any more. Busy if it is not
// renewed because others have waited too long for memory that is kept for it; Aborted if the lease
// has ended, whatever the reader reckons.
struct ReaderHeartbeatRequest {
  ReaderId reader{};
  uint64_t oldest = 0;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct ReaderHeartbeatReply {
  bool must_move = false;  // Others wait for memory: it is not renewed again with this `oldest`.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct CloseReaderRequest {
  ReaderId reader{};

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// Changes how a memory node schedules merges, those of all databases together, until it is changed
// again or the memory node ends. InvalidArgument if there is no schedule of that name.
struct SetMergeScheduleRequest {
  std::string schedule;  // By name, see MergeScheduleFromName(); empty: as it is.
  bool sets_budget = false;
  uint64_t bytes_per_second = 0;  // Of input, over all merges; 0: no limit. If sets_budget.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

// What is in force; after a request that changes nothing, too.
struct SetMergeScheduleReply {
  std::string schedule;
  uint64_t bytes_per_second = 0;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

struct NodeStatisticsReply {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;  // Granted, merged into or kept by manifests.
  uint64_t largest_free_bytes = 0;
  uint64_t databases = 0;
  uint64_t sessions = 0;
  uint64_t merges_done = 0;
  uint64_t merges_running = 0;
  uint64_t merges_queued = 0;
  uint64_t merge_bytes_waiting = 0;     // As in MergeLoad.
  uint64_t merge_bytes_per_second = 0;  // As in MergeLoad.
  uint64_t merge_bytes_read = 0;
  uint64_t merge_bytes_written = 0;
  uint64_t merge_micros = 0;
  uint64_t peer_bytes_read = 0;  // From other memory nodes, for merges.
  uint64_t merge_pauses = 0;     // For the sake of other merges, or of the budget.
  uint64_t merge_paused_micros = 0;
  uint64_t cpu_micros = 0;  // Of the memory node's process.
  uint64_t peak_rss_bytes = 0;

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

}  // namespace dlsm
