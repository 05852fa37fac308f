#include "script/tool/tool.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_pipeline.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "dLSM/iterator.h"
#include "dLSM/sorted_source.h"
#include "dLSM/write_batch.h"
#include "memory_node/store/directory.h"
#include "port/thread_sanitizer.h"
#include "script/tool/split_points.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace dlsm::tool {

namespace {

struct VerbName {
  std::string_view name;
  Verb verb;
};
constexpr std::array kVerbNames = {
    VerbName{"load", Verb::kLoad},
    VerbName{"dump", Verb::kDump},
    VerbName{"get", Verb::kGet},
    VerbName{"put", Verb::kPut},
    VerbName{"scan", Verb::kScan},
    VerbName{"delete", Verb::kDelete},
    VerbName{"stats", Verb::kStats},
    VerbName{"verify", Verb::kVerify},
    VerbName{"compact", Verb::kCompact},
    VerbName{"destroy", Verb::kDestroy},
    VerbName{"split-points", Verb::kSplitPoints},
    VerbName{"accept-loss", Verb::kAcceptLoss},
};

// A batch of `load`: large enough that its fixed cost does not matter, small beside a memtable.
constexpr uint32_t kBatchEntriesMax = 1000;
constexpr size_t kBatchBytesMax = size_t{1} << 20;

// `verify` also looks up every so many-th key by itself, which takes another way than the scan.
constexpr uint64_t kLookupInterval = 64;

// Of what is loaded: entries that become one batch.
struct Piece {
  bool IsFull() const {
    return batch.Count() >= kBatchEntriesMax || batch.ApproximateSize() >= kBatchBytesMax;
  }

  WriteBatch batch;
  uint64_t first = 0;  // The number of its first entry, from 1 on.
};
// This bounds the memory of pieces that are read and not written yet.
constexpr size_t kPiecesAtOnce = 4;

Status UnknownVerb(const std::string& name) {
  if (std::ranges::find(kVerbsAlone, name) != kVerbsAlone.end()) {
    return Status::InvalidArgument(
        fmt::format("'{}' goes with no other verb: give it by itself", name));
  }
  std::string known;
  for (const VerbName& verb : kVerbNames) known += fmt::format(" {}", verb.name);
  return Status::InvalidArgument(
      fmt::format("unknown verb '{}'; there are:{}; and each by itself: {}", name, known,
                  fmt::join(kVerbsAlone, " ")));
}

Status ParseVerb(const std::string& name, Verb* verb) {
  for (const VerbName& known : kVerbNames) {
    if (known.name == name) {
      *verb = known.verb;
      return Status::OK();
    }
  }
  return UnknownVerb(name);
}

bool Has(const std::vector<Verb>& verbs, Verb verb) {
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

// Reads of a tool check everything, and leave no trace in the cache.
ReadOptions CheckedRead() {
  ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  return read;
}

std::string Shown(const Slice& key) {
  std::string escaped;
  AppendEscaped(&escaped, Slice(key.data(), std::min<size_t>(key.size(), 100)));
  return escaped;
}

Status WithContext(const Status& status, const std::string& context) {
  return Status::FromCode(status.code(),
                          fmt::format("{}: {}", context, status.message().ToStringView()));
}

// The entries of a stream.
class ReaderSource final : public SortedSource {
 public:
  // `ledger`, which gets the entries, may be null. Both outlive the source.
  ReaderSource(EntryReader* reader, Ledger* ledger) : reader_(reader), ledger_(ledger) {}

  bool Next(Slice* key, Slice* value) override {
    bool end = false;
    status_ = reader_->Next(key, value, &end);
    if (!status_.ok() || end) return false;
    if (ledger_ != nullptr) ledger_->Put(*key, *value);
    bytes_ += key->size() + value->size();
    return true;
  }
  Status status() const override { return status_; }

  uint64_t bytes() const { return bytes_; }

 private:
  EntryReader* const reader_;
  Ledger* const ledger_;
  Status status_;
  uint64_t bytes_ = 0;
};

}  // namespace

Status CheckIsThere(const std::string& directory) {
  if (directory.empty() || Directory::IsAt(directory)) return Status::OK();
  return Status::NotFound(fmt::format("--data_dir={} has no databases", directory),
                          "name a directory that a memory node has made, or begin with load");
}

Status ParseVerbs(const std::string& list, std::vector<Verb>* verbs) {
  verbs->clear();
  size_t start = 0;
  while (true) {
    const size_t comma = list.find(',', start);
    Verb verb = Verb::kLoad;
    DLSM_RETURN_IF_ERROR(ParseVerb(list.substr(start, comma - start), &verb));
    verbs->push_back(verb);
    if (comma == std::string::npos) return Status::OK();
    start = comma + 1;
  }
}

Status CheckVerbs(const std::vector<Verb>& verbs, const ToolOptions& options) {
  if (std::count(verbs.begin(), verbs.end(), Verb::kLoad) > 1) {
    return Status::InvalidArgument("load reads all of the standard input, so it can run once only");
  }
  for (const Verb verb : verbs) {
    const bool needs_key = verb == Verb::kGet || verb == Verb::kPut || verb == Verb::kDelete;
    if (needs_key && !options.key.has_value()) {
      return Status::InvalidArgument("get, put and delete need --key=KEY");
    }
    if (verb == Verb::kPut && !options.value.has_value()) {
      return Status::InvalidArgument("put needs --value=VALUE");
    }
  }
  if (Has(verbs, Verb::kSplitPoints) && options.shards < 2) {
    return Status::InvalidArgument("split-points needs --shards=N, at least 2");
  }
  const bool bounded = options.from.has_value() || options.to.has_value() || options.limit != 0;
  if (options.sorted && !Has(verbs, Verb::kLoad)) {
    return Status::InvalidArgument("--sorted is for load only");
  }
  if (bounded && !Has(verbs, Verb::kScan)) {
    return Status::InvalidArgument("--from, --to and --limit are for scan only");
  }
  return Status::OK();
}

Tool::Tool(const ToolOptions& options, std::istream* in, std::ostream* out, std::ostream* messages)
    : options_(options), in_(in), out_(out), messages_(messages) {}

Status Tool::Run(const std::vector<Verb>& verbs) {
  creates_ = Has(verbs, Verb::kLoad) || Has(verbs, Verb::kPut);
  keeps_ledger_ = Has(verbs, Verb::kVerify);
  Status status = RunAll(verbs);
  KeepFirstError(CloseDatabase(), &status);
  return status;
}

Status Tool::RunAll(const std::vector<Verb>& verbs) {
  for (const Verb verb : verbs) {
    const bool opens_itself = verb == Verb::kDestroy || verb == Verb::kAcceptLoss;
    if (!opens_itself) DLSM_RETURN_IF_ERROR(EnsureOpen());
    DLSM_RETURN_IF_ERROR(RunOne(verb));
  }
  return Status::OK();
}

Status Tool::RunOne(Verb verb) {
  switch (verb) {
    case Verb::kLoad:
      return options_.sorted ? LoadSorted() : Load();
    case Verb::kDump:
      return Dump();
    case Verb::kGet:
      return Get();
    case Verb::kPut:
      return Put();
    case Verb::kScan:
      return Scan();
    case Verb::kDelete:
      return Delete();
    case Verb::kStats:
      return Stats();
    case Verb::kVerify:
      return Verify();
    case Verb::kCompact:
      return Compact();
    case Verb::kDestroy:
      return Destroy();
    case Verb::kSplitPoints:
      return SplitPoints();
    case Verb::kAcceptLoss:
      return AcceptLoss();
  }
  return Status::InvalidArgument("no such verb");
}

Status Tool::EnsureOpen() {
  return db_ != nullptr ? Status::OK() : Open(/*accept_log_loss=*/false);
}

Status Tool::Open(bool accept_log_loss) {
  Options options = options_.database;
  options.create_if_missing = creates_;
  options.accept_log_loss = accept_log_loss;
  if (!creates_) DLSM_RETURN_IF_ERROR(CheckIsThere(options.embedded_dir));
  if (options_.read_only && creates_) {
    return Status::InvalidArgument("load makes a database, and --read_only changes nothing",
                                   "leave --read_only out");
  }
  const Status status = options_.read_only ? DB::OpenForReadOnly(options, options_.name, &db_)
                                           : DB::Open(options, options_.name, &db_);
  const bool in_memory =
      options.config.empty() && options.memory_nodes.empty() && options.embedded_dir.empty();
  if (!status.ok() && in_memory && !creates_) {
    return WithContext(status,
                       "without --memory_nodes, --config and --data_dir a database lives only as "
                       "long as the command: begin with load");
  }
  return status;
}

Status Tool::CloseDatabase() {
  if (db_ == nullptr) return Status::OK();
  const Status status = db_->Close();
  db_.reset();
  return status;
}

Status Tool::LoadSorted() {
  const auto start = std::chrono::steady_clock::now();
  const auto reader = NewEntryReader(options_.format, in_);
  ReaderSource source(reader.get(), keeps_ledger_ ? &ledger_ : nullptr);
  uint64_t entries = 0;
  DLSM_RETURN_IF_ERROR(db_->IngestSorted(&source, &entries));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  *messages_ << fmt::format("load: {} sorted entries, {:.1f} MB in {:.2f} s\n", entries,
                            static_cast<double>(source.bytes()) / 1e6, seconds.count());
  return Status::OK();
}

// Entries are read and written side by side: while one piece is written, the next one is read. Each
// of the two takes the pieces in their order, so a later value of a key replaces the one before.
Status Tool::Load() {
  const auto start = std::chrono::steady_clock::now();
  const auto reader = NewEntryReader(options_.format, in_);
  uint64_t entries = 0;
  uint64_t bytes = 0;
  bool end = false;
  Status read;
  Status written;
  std::atomic<bool> failed{false};
  const auto next_piece = [&](tbb::flow_control& control) {
    auto piece = std::make_shared<Piece>();
    piece->first = entries + 1;
    while (!end && !failed.load() && !piece->IsFull()) {
      Slice key;
      Slice value;
      read = reader->Next(&key, &value, &end);
      if (!read.ok()) failed = true;
      if (end || failed.load()) break;
      piece->batch.Put(key, value);
      if (keeps_ledger_) ledger_.Put(key, value);
      ++entries;
      bytes += key.size() + value.size();
    }
    if (failed.load() || piece->batch.Count() == 0) control.stop();
    return piece;
  };
  const auto write_piece = [&](const std::shared_ptr<Piece>& piece) {
    if (!written.ok()) return;
    const Status status = db_->Write(WriteOptions(), &piece->batch);
    if (status.ok()) return;
    const uint64_t last = piece->first + piece->batch.Count() - 1;
    written = WithContext(status, fmt::format("entries {} to {}", piece->first, last));
    failed = true;
  };
  // ThreadSanitizer does not see inside oneTBB what orders the two.
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    port::kUnderThreadSanitizer ? 1 : 2);
  try {
    tbb::parallel_pipeline(kPiecesAtOnce, tbb::make_filter<void, std::shared_ptr<Piece>>(
                                              tbb::filter_mode::serial_in_order, next_piece) &
                                              tbb::make_filter<std::shared_ptr<Piece>, void>(
                                                  tbb::filter_mode::serial_in_order, write_piece));
  } catch (const std::runtime_error& error) {
    return Status::IOError(fmt::format("oneTBB: {}", error.what()),
                           "raise the limit of processes (ulimit -u), or free memory");
  }
  DLSM_RETURN_IF_ERROR(written);
  DLSM_RETURN_IF_ERROR(read);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  *messages_ << fmt::format("load: {} entries, {:.1f} MB in {:.2f} s\n", entries,
                            static_cast<double>(bytes) / 1e6, seconds.count());
  return Status::OK();
}

Status Tool::WriteEntries(const ReadOptions& read, const Slice* first, uint64_t limit) {
  const auto writer = NewEntryWriter(options_.format, out_);
  const std::unique_ptr<Iterator> it(db_->NewIterator(read));
  uint64_t entries = 0;
  if (first == nullptr) {
    it->SeekToFirst();
  } else {
    it->Seek(*first);
  }
  for (; it->Valid() && (limit == 0 || entries < limit); it->Next()) {
    DLSM_RETURN_IF_ERROR(writer->Write(it->key(), it->value()));
    ++entries;
  }
  DLSM_RETURN_IF_ERROR(it->status());
  return writer->Flush();
}

Status Tool::Dump() { return WriteEntries(CheckedRead(), nullptr, 0); }

Status Tool::Scan() {
  ReadOptions read = CheckedRead();
  const Slice from = options_.from.has_value() ? Slice(*options_.from) : Slice();
  const Slice to = options_.to.has_value() ? Slice(*options_.to) : Slice();
  if (options_.to.has_value()) read.iterate_upper_bound = &to;
  return WriteEntries(read, options_.from.has_value() ? &from : nullptr, options_.limit);
}

Status Tool::Emit(const std::string& text) {
  out_->write(text.data(), static_cast<std::streamsize>(text.size()));
  out_->flush();
  return out_->good()
             ? Status::OK()
             : Status::IOError("cannot write the output", std::generic_category().message(errno));
}

// The value alone: as a field and a newline, or in binary its bytes and nothing else.
Status Tool::Get() {
  std::string value;
  const Status status = db_->Get(CheckedRead(), *options_.key, &value);
  if (status.IsNotFound()) {
    return Status::NotFound(fmt::format("no key '{}'", Shown(*options_.key)));
  }
  DLSM_RETURN_IF_ERROR(status);
  std::string text;
  if (options_.format == EntryFormat::kTsv) {
    AppendEscaped(&text, value);
    text.push_back('\n');
  } else {
    text = std::move(value);
  }
  return Emit(text);
}

Status Tool::Put() {
  if (keeps_ledger_) ledger_.Put(*options_.key, *options_.value);
  return db_->Put(WriteOptions(), *options_.key, *options_.value);
}

Status Tool::Delete() {
  if (keeps_ledger_) ledger_.Delete(*options_.key);
  return db_->Delete(WriteOptions(), *options_.key);
}

Status Tool::Stats() {
  std::string all;
  for (const char* property : {"dlsm.fabric", "dlsm.levels", "dlsm.entries", "dlsm.metadata-bytes",
                               "dlsm.memory", "dlsm.wire", "dlsm.stats"}) {
    std::string text;
    if (!db_->GetProperty(property, &text)) continue;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const bool several_lines = text.find('\n') != std::string::npos;
    all += fmt::format("{}{}{}\n", property, several_lines ? "\n" : " ", text);
  }
  return Emit(all);
}

Status Tool::Verify() {
  const auto start = std::chrono::steady_clock::now();
  const ReadOptions read = CheckedRead();
  const std::unique_ptr<Iterator> it(db_->NewIterator(read));
  ledger_.Begin();
  uint64_t entries = 0;
  std::string previous;
  std::string looked_up;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const Slice key = it->key();
    if (entries > 0 && key.compare(previous) <= 0) {
      return Status::Corruption(
          fmt::format("key '{}' follows '{}': not in order", Shown(key), Shown(previous)));
    }
    DLSM_RETURN_IF_ERROR(ledger_.See(key, it->value()));
    if (entries % kLookupInterval == 0) {
      const Status status = db_->Get(read, key, &looked_up);
      if (!status.ok()) return WithContext(status, fmt::format("get of '{}'", Shown(key)));
      if (Slice(looked_up) != it->value()) {
        return Status::Corruption(
            fmt::format("get of '{}' gives another value than the scan", Shown(key)));
      }
    }
    previous.assign(key.data(), key.size());
    ++entries;
  }
  DLSM_RETURN_IF_ERROR(it->status());
  DLSM_RETURN_IF_ERROR(ledger_.Finish());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  *messages_ << fmt::format(
      "verify: {} entries in order, checksums good, {} of them written by this command, {:.2f} s\n",
      entries, ledger_.keys(), seconds.count());
  return Status::OK();
}

Status Tool::Compact() {
  DLSM_RETURN_IF_ERROR(db_->CompactRange(nullptr, nullptr));
  return db_->WaitForBackgroundWork();
}

// One a line, escaped: what --shard_boundaries_file reads.
Status Tool::SplitPoints() {
  std::vector<std::string> points;
  DLSM_RETURN_IF_ERROR(FindSplitPoints(db_.get(), options_.shards, &points));
  std::string text;
  for (const std::string& point : points) {
    AppendEscaped(&text, point);
    text.push_back('\n');
  }
  return Emit(text);
}

// An open that may lose nothing says how far the log is whole.
Status Tool::AcceptLoss() {
  const Status whole = EnsureOpen();
  if (whole.ok()) {
    *messages_ << "accept-loss: nothing is lost: no log is damaged\n";
    return whole;
  }
  if (!whole.IsCorruption()) return whole;
  DLSM_RETURN_IF_ERROR(Open(/*accept_log_loss=*/true));
  *messages_ << fmt::format("accept-loss: {} was opened without what its log has lost: {}\n",
                            options_.name, whole.message().ToStringView());
  return Status::OK();
}

Status Tool::Destroy() {
  DLSM_RETURN_IF_ERROR(CloseDatabase());
  DLSM_RETURN_IF_ERROR(CheckIsThere(options_.database.embedded_dir));
  ledger_.Clear();
  return DestroyDB(options_.name, options_.database);
}

}  // namespace dlsm::tool
