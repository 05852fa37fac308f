// leveldb::DB: opening, and what its base class has.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "db/leveldb/adapters.h"
#include "db/leveldb/database.h"
#include "db/leveldb/file_locks.h"
#include "db/leveldb/place.h"
#include "db/leveldb/translate.h"
#include "leveldb/db.h"
#include "leveldb/write_batch.h"
#include "port/clock.h"

namespace dlsm::compat {
namespace {

using Filter = OwnOptions::Filter;

bool Mentions(const dlsm::Status& status, std::string_view text) {
  return status.IsInvalidArgument() &&
         status.message().ToStringView().find(text) != std::string_view::npos;
}

// The comparator's name in LevelDB's words.
std::string NameInLeveldb(std::string_view own) {
  if (own == dlsm::BytewiseComparator()->Name()) return leveldb::BytewiseComparator()->Name();
  return std::string(own);
}

// "the database is ordered by comparator A: the options name B: open it with its own", in LevelDB's
// words.
leveldb::Status OtherComparator(const dlsm::Status& status) {
  constexpr std::string_view kBefore = "the database is ordered by comparator ";
  constexpr std::string_view kBetween = ": the options name ";
  constexpr std::string_view kBehind = ": open it with its own";
  std::string_view text = status.message().ToStringView();
  const size_t between = text.find(kBetween);
  const size_t behind = text.rfind(kBehind);
  if (!text.starts_with(kBefore) || between == text.npos || behind == text.npos) {
    return ToLeveldb(status);
  }
  const std::string stored = NameInLeveldb(text.substr(kBefore.size(), between - kBefore.size()));
  const size_t named = between + kBetween.size();
  return leveldb::Status::InvalidArgument(stored + " does not match existing comparator ",
                                          NameInLeveldb(text.substr(named, behind - named)));
}

// An error of an open, in the words that programs of LevelDB know.
leveldb::Status InWordsOfLeveldb(const dlsm::Status& status, const std::string& path) {
  if (Mentions(status, "(create_if_missing is false)")) {
    return leveldb::Status::InvalidArgument(path, "does not exist (create_if_missing is false)");
  }
  if (Mentions(status, "(error_if_exists is true)")) {
    return leveldb::Status::InvalidArgument(path, "exists (error_if_exists is true)");
  }
  if (Mentions(status, "ordered by comparator")) return OtherComparator(status);
  if (status.IsBusy()) {
    return leveldb::Status::IOError("lock " + path + kLock, ToLeveldb(status.message()).ToString());
  }
  return ToLeveldb(status);
}

// A database was made with one kind of filter, and LevelDB's programs may open it with any: so each
// kind is tried in turn.
dlsm::Status OpenWithAnyFilter(const std::string& name, OwnOptions* options,
                               std::unique_ptr<dlsm::DB>* db) {
  dlsm::Status status;
  for (const Filter filter : {Filter::kWanted, Filter::kBuiltIn, Filter::kAny, Filter::kNone}) {
    options->SetFilter(filter);
    status = dlsm::DB::Open(options->options(), name, db);
    if (!Mentions(status, "the database was made with")) return status;
  }
  return status;
}

// The directory is locked, and may be used.
leveldb::Status PrepareDirectory(const leveldb::Options& options, const Place& place) {
  if (!place.HasDatabase() && !options.create_if_missing) {
    return leveldb::Status::InvalidArgument(place.path(),
                                            "does not exist (create_if_missing is false)");
  }
  return place.Claim();
}

}  // namespace

leveldb::Status OpenDatabase(const leveldb::Options& options, const Place& place,
                             bool accept_log_loss, std::unique_ptr<Database>* database) {
  const auto began = port::Clock::now();
  Database::Parts parts;
  parts.path = place.path();
  parts.in_memory = place.InMemory();
  if (place.InDirectory()) {
    leveldb::Status status = place.CheckFormat();
    if (!status.ok()) return status;
    // It may be there already. If it cannot be made, to lock it fails.
    static_cast<void>(leveldb::Env::Default()->CreateDir(place.path()));
    status = LockFile(place.path() + kLock, &parts.lock);
    if (!status.ok()) return status;
    status = PrepareDirectory(options, place);
    if (!status.ok()) return status;
  }
  parts.log = InfoLog::Open(options, place);
  parts.options = std::make_unique<OwnOptions>(options);
  if (!parts.options->warning().empty()) parts.log.Write(parts.options->warning());
  parts.options->options().accept_log_loss = accept_log_loss;
  place.Tell(&parts.options->options());
  const dlsm::Status opened = OpenWithAnyFilter(place.name(), parts.options.get(), &parts.db);
  if (!opened.ok()) {
    parts.log.Write("not opened: " + opened.ToString());
    return InWordsOfLeveldb(opened, place.path());
  }
  parts.log.Write(fmt::format("opened {} by dLSM {}.{} in {} ms", place.path(), dlsm::kMajorVersion,
                              dlsm::kMinorVersion, port::MicrosecondsSince(began) / 1000));
  *database = std::make_unique<Database>(std::move(parts));
  return leveldb::Status::OK();
}

}  // namespace dlsm::compat

namespace leveldb {

Snapshot::~Snapshot() = default;
DB::~DB() = default;

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  *dbptr = nullptr;
  dlsm::compat::Place place;
  Status status = dlsm::compat::Place::Find(name, options.env, &place);
  if (!status.ok()) return status;
  std::unique_ptr<dlsm::compat::Database> database;
  status = dlsm::compat::OpenDatabase(options, place, /*accept_log_loss=*/false, &database);
  *dbptr = database.release();
  return status;
}

// For classes of programs that override Write() alone.
Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

}  // namespace leveldb
