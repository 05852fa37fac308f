// What a DatabaseTable knows of each database, of each session, open or ended, and of each merge
// under way. Whose bytes are whose, and until when, is told in database_table.h. All of this is
// under the table's lock unless it says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/accounts/numbered_merges.h"
#include "memory_node/accounts/reader_leases.h"
#include "port/clock.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/messages/messages.h"

namespace dlsm::database_table {

struct Database {
  std::string name;
  DatabaseIncarnation incarnation{};  // Drawn when it was made.
  uint64_t bytes = 0;                 // All that is allocated for it.
  ByteRange header;                   // Empty once the database has gone.
  ByteRanges held;
  ByteRanges live;
  uint64_t manifest_version = 0;  // 0: none was ever put.
  std::string manifest;
  SessionId session{};  // Its owner's; 0: not open.
  ReaderLeases::Database published = std::make_shared<PublishedDatabase>();
};

struct Session {
  std::shared_ptr<Database> database;
  std::string client;
  std::vector<std::string> tokens;  // All those that its calls came with.
  uint64_t connection = 0;
  bool connected = true;
  bool known = false;  // To its client, which has used it: the answer has arrived.
  port::Clock::time_point ends_at;
  std::map<uint64_t, RemoteSpan> grants;  // The last ones, by the numbers of their requests.
  uint64_t last_free = 0;                 // The number of the last request that was dealt with.
  NumberedMerges merges;
  // An owner's: what the one before has told at its close (PublishedDatabase::unnamed_from), as
  // long as it has given nothing back and put no manifest.
  uint64_t unnamed_before = PublishedDatabase::kUnknown;
  uint64_t word_before = 0;  // Until the client has put `word` in its place.
  uint64_t word = 0;
};

// How a session ends.
enum class End {
  kClosed,
  kExpired,
  kFenced,
  kUnknown,  // To its client, which is still there and asks again.
};

// A session has ended, and its client's access is being taken away.
struct Revocation {
  std::shared_ptr<Database> database;
  SessionId session{};
  std::string client;
  uint64_t connection = 0;
  bool blocks = true;  // The database is not opened meanwhile.
  ByteRanges fenced;
  // Tokens of which the revoker has not been told.
  std::vector<std::string> untold;
  bool cut_off = false;  // Confirmed, as far as access can be taken away.
  bool let_go = true;    // By the client, where it cannot.
  // Then it has let go, unless it is heard of before: its connection is gone.
  port::Clock::time_point gone_at = port::Clock::time_point::max();
  Status failure;              // Of the last attempt.
  std::function<void()> done;  // Empty once it has been called.
};

// Why a session is no more, for who asks with it.
struct Fenced {
  port::Clock::time_point forget_at;
  std::string why;
};

// From its beginning to its end; see MergeHold.
struct Merge {
  std::shared_ptr<Database> database;
  SessionId session{};
  uint64_t number = 0;
  uint64_t connection = 0;
  ByteRanges inputs;
  ByteRanges outputs;
  bool in_vain = false;  // There was no memory when it asked for some last.
  // Read by the merge's thread while others set it; orders nothing.
  std::atomic<bool> cancelled{false};
};

}  // namespace dlsm::database_table
