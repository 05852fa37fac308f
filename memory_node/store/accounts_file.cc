#include "memory_node/store/accounts_file.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <utility>

#include "util/status_macros.h"

namespace dlsm {
namespace {

// "dLSM", in the file's head: tells it from other programs' databases.
constexpr int kApplicationId = 0x644C534D;

// A manifest has up to 64 MiB.
constexpr int kRowBytesMax = 256 << 20;

}  // namespace

void AccountsFile::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void AccountsFile::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

AccountsFile::~AccountsFile() = default;

Status AccountsFile::ToStatus(int result, const char* what) const {
  switch (result & 0xFF) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return Status::OK();
    case SQLITE_FULL:
      return Status::Busy(
          fmt::format("cannot {} {}: the disk is full; make room there", what, path_));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Status::Busy(fmt::format("cannot {} {}: another process has it open", what, path_));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Status::Corruption(
          fmt::format("{} is damaged ({}); restore the directory from a copy, or begin with an "
                      "empty one",
                      path_, sqlite3_errmsg(database_.get())));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return Status::IOError(
          fmt::format("cannot {} {}: {}; give this process the right to write there", what, path_,
                      sqlite3_errmsg(database_.get())));
    default:
      return Status::IOError(fmt::format("cannot {} {}: {}; is its disk in order?", what, path_,
                                         sqlite3_errmsg(database_.get())));
  }
}

Status AccountsFile::Open(const std::string& path, Mode mode, std::unique_ptr<AccountsFile>* file) {
  std::unique_ptr<AccountsFile> made(new AccountsFile(path));
  sqlite3* database = nullptr;
  const int flags = (mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY
                                             : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX;
  const int opened = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  made->database_.reset(database);
  DLSM_RETURN_IF_ERROR(made->ToStatus(opened, "open"));
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, kRowBytesMax);
  DLSM_RETURN_IF_ERROR(made->Run("PRAGMA locking_mode=EXCLUSIVE"));
  DLSM_RETURN_IF_ERROR(made->CheckVersion(mode));
  if (mode == Mode::kReadWrite) DLSM_RETURN_IF_ERROR(made->Prepare());
  *file = std::move(made);
  return Status::OK();
}

Status AccountsFile::CheckVersion(Mode mode) {
  Statement version;
  DLSM_RETURN_IF_ERROR(MakeStatement("PRAGMA user_version", &version));
  const int got = sqlite3_step(version.get());
  DLSM_RETURN_IF_ERROR(ToStatus(got, "read"));
  const int number = sqlite3_column_int(version.get(), 0);
  if (number == kFormatVersion) return Status::OK();
  if (number != 0) {
    return Status::InvalidArgument(
        fmt::format("{} is of version {}, and this program knows version {} only; use the program "
                    "that made it, or another directory",
                    path_, number, kFormatVersion));
  }
  // A new file, or one whose making was cut short.
  if (mode == Mode::kReadOnly) return Status::Corruption(fmt::format("{} is empty", path_));
  return Status::OK();
}

Status AccountsFile::Prepare() {
  DLSM_RETURN_IF_ERROR(Run("PRAGMA journal_mode=WAL"));
  DLSM_RETURN_IF_ERROR(Run("PRAGMA synchronous=FULL"));
  DLSM_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  DLSM_RETURN_IF_ERROR(
      Run("CREATE TABLE IF NOT EXISTS rows (kind INTEGER NOT NULL, id INTEGER NOT NULL, "
          "bytes BLOB NOT NULL, PRIMARY KEY (kind, id))"));
  DLSM_RETURN_IF_ERROR(Run(fmt::format("PRAGMA application_id={}", kApplicationId).c_str()));
  DLSM_RETURN_IF_ERROR(Run(fmt::format("PRAGMA user_version={}", kFormatVersion).c_str()));
  DLSM_RETURN_IF_ERROR(Run("COMMIT"));
  DLSM_RETURN_IF_ERROR(
      MakeStatement("INSERT INTO rows (kind, id, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (kind, id) "
                    "DO UPDATE SET bytes = excluded.bytes",
                    &put_));
  return MakeStatement("DELETE FROM rows WHERE kind = ?1 AND id = ?2", &remove_);
}

Status AccountsFile::MakeStatement(const char* sql, Statement* statement) {
  sqlite3_stmt* made = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), sql, -1, &made, nullptr);
  statement->reset(made);
  return ToStatus(result, "use");
}

Status AccountsFile::Run(const char* sql) {
  return ToStatus(sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr), "write");
}

Status AccountsFile::Load(StoredRows* rows) {
  Statement all;
  DLSM_RETURN_IF_ERROR(MakeStatement("SELECT kind, id, bytes FROM rows", &all));
  while (true) {
    const int result = sqlite3_step(all.get());
    if (result == SQLITE_DONE) return Status::OK();
    if (result != SQLITE_ROW) return ToStatus(result, "read");
    const int64_t kind = sqlite3_column_int64(all.get(), 0);
    const auto id = static_cast<uint64_t>(sqlite3_column_int64(all.get(), 1));
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(all.get(), 2));
    const auto count = static_cast<size_t>(sqlite3_column_bytes(all.get(), 2));
    if (kind < 0 || kind > UINT8_MAX) {
      return Status::Corruption(fmt::format("{} has a row of kind {}", path_, kind));
    }
    const StoredKey key{static_cast<StoredKind>(kind), id};
    (*rows)[key] = count == 0 ? std::string() : std::string(bytes, count);
  }
}

Status AccountsFile::Write(const StoredChanges& changes, bool persist) {
  if (persist != persists_) {
    // NORMAL leaves the journal to the kernel, which keeps it whatever ends this process.
    DLSM_RETURN_IF_ERROR(Run(persist ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
    persists_ = persist;
  }
  DLSM_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  Status written = RunAll(changes, persist);
  if (written.ok()) written = Run("COMMIT");
  if (written.ok()) return written;
  // A transaction that could not be finished is taken back, if SQLite has not done that by itself.
  if (sqlite3_get_autocommit(database_.get()) == 0) {
    const Status taken_back = Run("ROLLBACK");
    if (!taken_back.ok()) return taken_back;
  }
  return written;
}

Status AccountsFile::RunAll(const StoredChanges& changes, bool persist) {
  for (const auto& [key, bytes] : changes.written) {
    sqlite3_bind_int(put_.get(), 1, static_cast<int>(key.kind));
    sqlite3_bind_int64(put_.get(), 2, static_cast<int64_t>(key.id));
    sqlite3_bind_blob64(put_.get(), 3, bytes.data(), bytes.size(), SQLITE_STATIC);
    const Status put = ToStatus(sqlite3_step(put_.get()), "write");
    sqlite3_reset(put_.get());
    sqlite3_clear_bindings(put_.get());
    DLSM_RETURN_IF_ERROR(put);
  }
  for (const StoredKey& key : changes.removed) {
    sqlite3_bind_int(remove_.get(), 1, static_cast<int>(key.kind));
    sqlite3_bind_int64(remove_.get(), 2, static_cast<int64_t>(key.id));
    const Status removed = ToStatus(sqlite3_step(remove_.get()), "write");
    sqlite3_reset(remove_.get());
    DLSM_RETURN_IF_ERROR(removed);
  }
  if (!persist || !changes.empty()) return Status::OK();
  // A transaction without changes would synchronise nothing, and commits before it may not be
  // persisted yet.
  return Run(fmt::format("PRAGMA application_id={}", kApplicationId).c_str());
}

Status AccountsFile::Check() {
  Statement check;
  DLSM_RETURN_IF_ERROR(MakeStatement("PRAGMA quick_check(1)", &check));
  const int result = sqlite3_step(check.get());
  if (result != SQLITE_ROW) return ToStatus(result, "check");
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(check.get(), 0));
  const std::string said = text == nullptr ? "" : text;
  if (said == "ok") return Status::OK();
  return Status::Corruption(
      fmt::format("{} is damaged ({}); restore the directory from a copy, or begin with an empty "
                  "one",
                  path_, said));
}

}  // namespace dlsm
