// The verbs of dlsm_tool, apart from flags and process: they read one stream and write another.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/status.h"
#include "script/tool/entry_codec.h"
#include "script/tool/ledger.h"

namespace dlsm::tool {

enum class Verb : uint8_t {
  kLoad,
  kDump,
  kGet,
  kPut,
  kScan,
  kDelete,
  kStats,
  kVerify,
  kCompact,
  kDestroy,
  kSplitPoints,
  kAcceptLoss,
};

struct ToolOptions {
  Options database;
  std::string name;
  EntryFormat format = EntryFormat::kTsv;
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::optional<std::string> from;  // scan: the first key, inclusive.
  std::optional<std::string> to;    // scan: the end, exclusive.
  uint64_t limit = 0;               // scan: how many entries at most; 0: all.
  size_t shards = 1;                // split-points: into how many parts.
  bool sorted = false;              // load: the entries ascend, and become tables at once.
  bool read_only = false;           // DB::OpenForReadOnly().
};

// Verbs of memory nodes and of a set-up, not of one database: each is a command by itself.
inline constexpr std::array<std::string_view, 8> kVerbsAlone = {
    "backup", "check", "check-backup", "doctor", "nodes", "quota", "restore", "schedule"};

// "load,verify,dump" as verbs. InvalidArgument names what is unknown and lists what there is.
Status ParseVerbs(const std::string& list, std::vector<Verb>* verbs);

// NotFound if the directory is named and no memory node has made it: an open would make it.
Status CheckIsThere(const std::string& directory);

// Whether `options` have what the verbs need, so that a mistake is found before any work.
Status CheckVerbs(const std::vector<Verb>& verbs, const ToolOptions& options);

// Runs the verbs of one command on one database. One thread.
class Tool {
 public:
  // Entries come from `in` and go to `out`; a line for each verb that has something to tell goes to
  // `messages`. The streams outlive the tool.
  Tool(const ToolOptions& options, std::istream* in, std::ostream* out, std::ostream* messages);

  // One verb after the other, until one fails; then closes the database. To be called once, with
  // verbs that CheckVerbs() has passed.
  Status Run(const std::vector<Verb>& verbs);

 private:
  Status RunAll(const std::vector<Verb>& verbs);
  Status RunOne(Verb verb);
  Status EnsureOpen();
  Status Open(bool accept_log_loss);
  Status CloseDatabase();

  Status Load();
  Status LoadSorted();
  Status Dump();
  Status Get();
  Status Put();
  Status Scan();
  Status Delete();
  Status Stats();
  Status Verify();
  Status Compact();
  Status Destroy();
  Status SplitPoints();
  Status AcceptLoss();

  Status WriteEntries(const ReadOptions& read, const Slice* first, uint64_t limit);
  Status Emit(const std::string& text);

  const ToolOptions options_;
  std::istream* const in_;
  std::ostream* const out_;
  std::ostream* const messages_;
  bool creates_ = false;       // Whether a verb of this command may create the database.
  bool keeps_ledger_ = false;  // Whether it verifies.
  Ledger ledger_;
  std::unique_ptr<DB> db_;
};

}  // namespace dlsm::tool
