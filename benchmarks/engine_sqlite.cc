// SQLite behind the benchmark's interface: one table of keys and values, with a write-ahead log.
// One connection for all threads, who take turns: with one each they would wait for its lock by
// sleeping.
#include <fmt/core.h>
#include <sqlite3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "benchmarks/engine.h"
#include "port/mutex.h"

namespace dlsm::bench {
namespace {

using Statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

class SqliteConnection {
 public:
  ~SqliteConnection() { Close(); }

  Status Open(const std::string& path, bool create) {
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    if (sqlite3_open_v2(path.c_str(), &connection_, flags, nullptr) != SQLITE_OK) return Error();
    Status status = Execute("PRAGMA journal_mode=WAL");
    if (status.ok()) {
      status = Execute(
          "CREATE TABLE IF NOT EXISTS entries(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID");
    }
    return status;
  }
  void Close() {
    statements_.clear();
    sqlite3_close_v2(std::exchange(connection_, nullptr));
  }

  Status Error() const { return Status::IOError("sqlite", sqlite3_errmsg(connection_)); }
  Status Execute(const char* text) {
    return sqlite3_exec(connection_, text, nullptr, nullptr, nullptr) == SQLITE_OK ? Status::OK()
                                                                                   : Error();
  }
  // Ready to be bound to values. Null if the text is wrong.
  sqlite3_stmt* Prepare(const char* text) {
    for (const auto& [prepared, statement] : statements_) {
      if (prepared != text) continue;
      sqlite3_reset(statement.get());
      return statement.get();
    }
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v3(connection_, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    statements_.emplace_back(text, Statement(statement, &sqlite3_finalize));
    return statement;
  }
  static void Bind(sqlite3_stmt* statement, int place, const Slice& bytes) {
    sqlite3_bind_blob(statement, place, bytes.data(), static_cast<int>(bytes.size()),
                      SQLITE_STATIC);
  }
  static Slice Column(sqlite3_stmt* statement, int column) {
    const void* const data = sqlite3_column_blob(statement, column);
    return Slice(static_cast<const char*>(data),
                 static_cast<size_t>(sqlite3_column_bytes(statement, column)));
  }

  port::Mutex mutex;

 private:
  sqlite3* connection_ = nullptr;
  std::vector<std::pair<const char*, Statement>> statements_;  // By where their texts lie.
};

constexpr const char* kPut = "INSERT OR REPLACE INTO entries VALUES(?1, ?2)";
constexpr const char* kDelete = "DELETE FROM entries WHERE key=?1";
constexpr const char* kGet = "SELECT value FROM entries WHERE key=?1";

// Each step is a query of its own, so that others can write meanwhile.
class SqliteCursor : public Cursor {
 public:
  explicit SqliteCursor(SqliteConnection& connection) : connection_(connection) {}

  bool SeekToFirst(Entry* entry) override {
    return Find("SELECT key, value FROM entries ORDER BY key LIMIT 1", nullptr, entry);
  }
  bool SeekToLast(Entry* entry) override {
    return Find("SELECT key, value FROM entries ORDER BY key DESC LIMIT 1", nullptr, entry);
  }
  bool Seek(const Slice& target, Entry* entry) override {
    return Find("SELECT key, value FROM entries WHERE key>=?1 ORDER BY key LIMIT 1", &target,
                entry);
  }
  bool Next(Entry* entry) override {
    const Slice key(key_);
    return Find("SELECT key, value FROM entries WHERE key>?1 ORDER BY key LIMIT 1", &key, entry);
  }
  bool Prev(Entry* entry) override {
    const Slice key(key_);
    return Find("SELECT key, value FROM entries WHERE key<?1 ORDER BY key DESC LIMIT 1", &key,
                entry);
  }
  Status status() const override { return status_; }

 private:
  bool Find(const char* text, const Slice* key, Entry* entry) {
    const port::MutexLock lock(connection_.mutex);
    sqlite3_stmt* const statement = connection_.Prepare(text);
    if (key != nullptr) SqliteConnection::Bind(statement, 1, *key);
    const int stepped = sqlite3_step(statement);
    if (stepped == SQLITE_ROW) {
      key_ = SqliteConnection::Column(statement, 0).ToString();
      value_ = SqliteConnection::Column(statement, 1).ToString();
      *entry = {Slice(key_), Slice(value_)};
    } else if (stepped != SQLITE_DONE) {
      status_ = connection_.Error();
    }
    sqlite3_reset(statement);
    return stepped == SQLITE_ROW;
  }

  SqliteConnection& connection_;
  std::string key_;
  std::string value_;
  Status status_;
};

class SqliteSession : public Session {
 public:
  explicit SqliteSession(SqliteConnection& connection) : connection_(connection) {}

  Status Put(const Slice& key, const Slice& value) override {
    const port::MutexLock lock(connection_.mutex);
    return Run(kPut, key, &value);
  }
  Status Delete(const Slice& key) override {
    const port::MutexLock lock(connection_.mutex);
    return Run(kDelete, key, nullptr);
  }
  void BatchPut(const Slice& key, const Slice& value) override {
    batch_.emplace_back(key.ToString(), value.ToString());
  }
  void BatchDelete(const Slice& key) override { batch_.emplace_back(key.ToString(), std::nullopt); }
  Status WriteBatch() override {
    const port::MutexLock lock(connection_.mutex);
    Status status = connection_.Execute("BEGIN");
    for (const auto& [key, value] : batch_) {
      if (!status.ok()) break;
      const Slice bytes = value.has_value() ? Slice(*value) : Slice();
      status = value.has_value() ? Run(kPut, key, &bytes) : Run(kDelete, key, nullptr);
    }
    batch_.clear();
    return status.ok() ? connection_.Execute("COMMIT") : status;
  }
  void SetSync(bool sync) override {
    const port::MutexLock lock(connection_.mutex);
    status_ = connection_.Execute(sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  }

  Outcome Get(const Slice& key, Slice* value) override {
    const port::MutexLock lock(connection_.mutex);
    sqlite3_stmt* const statement = connection_.Prepare(kGet);
    SqliteConnection::Bind(statement, 1, key);
    const int stepped = sqlite3_step(statement);
    if (stepped == SQLITE_ROW) value_ = SqliteConnection::Column(statement, 0).ToString();
    if (stepped != SQLITE_ROW && stepped != SQLITE_DONE) status_ = connection_.Error();
    sqlite3_reset(statement);
    *value = Slice(value_);
    if (stepped == SQLITE_ROW) return Outcome::kFound;
    return stepped == SQLITE_DONE ? Outcome::kMissing : Outcome::kFailed;
  }
  Status MultiGet(const std::vector<Slice>& keys,
                  std::vector<std::optional<Slice>>* values) override {
    strings_.resize(keys.size());
    values->assign(keys.size(), std::nullopt);
    for (size_t i = 0; i < keys.size(); ++i) {
      Slice value;
      const Outcome outcome = Get(keys[i], &value);
      if (outcome == Outcome::kFailed) return status_;
      if (outcome == Outcome::kMissing) continue;
      strings_[i] = value.ToString();
      (*values)[i] = Slice(strings_[i]);
    }
    return Status::OK();
  }
  Status status() const override { return status_; }

  Cursor& NewCursor() override {
    cursor_ = std::make_unique<SqliteCursor>(connection_);
    return *cursor_;
  }
  void DropCursor() override { cursor_.reset(); }

 private:
  Status Run(const char* text, const Slice& key, const Slice* value)
      EXCLUSIVE_LOCKS_REQUIRED(connection_.mutex) {
    sqlite3_stmt* const statement = connection_.Prepare(text);
    SqliteConnection::Bind(statement, 1, key);
    if (value != nullptr) SqliteConnection::Bind(statement, 2, *value);
    Status status = sqlite3_step(statement) == SQLITE_DONE ? Status::OK() : connection_.Error();
    sqlite3_reset(statement);
    return status;
  }

  SqliteConnection& connection_;
  std::vector<std::pair<std::string, std::optional<std::string>>> batch_;
  std::string value_;
  std::vector<std::string> strings_;
  std::unique_ptr<SqliteCursor> cursor_;
  Status status_;
};

class SqliteEngine : public Engine {
 public:
  explicit SqliteEngine(const EngineOptions& options)
      : folder_(options.db), path_(folder_ + "/entries.sqlite") {}

  std::vector<std::string> Notes() const override {
    return {fmt::format("version: {}", sqlite3_libversion()), "folder: " + folder_,
            "WAL; synchronous=FULL where a write is synced, else NORMAL"};
  }
  Status Open(bool create) override {
    std::error_code error;
    if (create) std::filesystem::create_directories(folder_, error);
    if (!create && !std::filesystem::exists(path_, error)) {
      return Status::NotFound("sqlite", path_ + " does not exist");
    }
    connection_ = std::make_unique<SqliteConnection>();
    return connection_->Open(path_, create);
  }
  Status Close() override {
    connection_.reset();
    return Status::OK();
  }
  Status Destroy() override {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      static_cast<void>(std::remove((path_ + suffix).c_str()));
    }
    return Status::OK();
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<SqliteSession>(*connection_);
  }
  Status Flush() override { return Status::OK(); }
  Status Compact() override { return Status::OK(); }
  Status WaitForBackgroundWork() override { return Status::OK(); }
  EngineCounters Counters() override { return {}; }
  // One tree, which is sorted.
  TreeState Tree() override { return TreeOfLevels({0, 1}); }
  std::string Stats() override { return {}; }
  std::string LevelStats() override { return {}; }

 private:
  const std::string folder_;
  const std::string path_;
  std::unique_ptr<SqliteConnection> connection_;
};

}  // namespace

std::unique_ptr<Engine> NewSqliteEngine(const EngineOptions& options) {
  return std::make_unique<SqliteEngine>(options);
}

}  // namespace dlsm::bench
