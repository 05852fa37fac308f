#include "memory_node/store/accounts_file.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>

#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

// What SQLite asks of its files, as long as one lives: how many writes of a journal have not been
// synchronised.
class WatchedFiles {
 public:
  WatchedFiles() {
    below_ = sqlite3_vfs_find(nullptr);
    vfs_ = *below_;
    vfs_.zName = "watched";
    vfs_.xOpen = &Open;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + below_->szOsFile;
    unsynchronised_ = 0;
    synchronisations_ = 0;
    sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
  }
  ~WatchedFiles() {
    sqlite3_vfs_register(below_, /*makeDflt=*/1);
    sqlite3_vfs_unregister(&vfs_);
  }

  static int unsynchronised() { return unsynchronised_; }
  static int synchronisations() { return synchronisations_; }

 private:
  // In front of the file of the system, whose functions it calls but for two.
  struct File {
    sqlite3_file base;
    sqlite3_io_methods methods;
    const sqlite3_io_methods* real;
    bool journal;
  };

  static sqlite3_file* RealOf(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
  }
  static int Open(sqlite3_vfs* /*vfs*/, const char* name, sqlite3_file* file, int flags,
                  int* out_flags) {
    auto* const own = reinterpret_cast<File*>(file);
    sqlite3_file* const real = RealOf(file);
    const int result = below_->xOpen(below_, name, real, flags, out_flags);
    file->pMethods = nullptr;
    if (result != SQLITE_OK) return result;
    own->real = real->pMethods;
    own->journal = (flags & SQLITE_OPEN_WAL) != 0;
    own->methods = {};
    own->methods.iVersion = 2;
    own->methods.xClose = [](sqlite3_file* f) { return RealOf(f)->pMethods->xClose(RealOf(f)); };
    own->methods.xRead = [](sqlite3_file* f, void* to, int count, sqlite3_int64 at) {
      return RealOf(f)->pMethods->xRead(RealOf(f), to, count, at);
    };
    own->methods.xWrite = [](sqlite3_file* f, const void* from, int count, sqlite3_int64 at) {
      if (reinterpret_cast<File*>(f)->journal) ++unsynchronised_;
      return RealOf(f)->pMethods->xWrite(RealOf(f), from, count, at);
    };
    own->methods.xSync = [](sqlite3_file* f, int how) {
      if (reinterpret_cast<File*>(f)->journal) {
        unsynchronised_ = 0;
        ++synchronisations_;
      }
      return RealOf(f)->pMethods->xSync(RealOf(f), how);
    };
    own->methods.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      return RealOf(f)->pMethods->xTruncate(RealOf(f), size);
    };
    own->methods.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return RealOf(f)->pMethods->xFileSize(RealOf(f), size);
    };
    own->methods.xLock = [](sqlite3_file* f, int kind) {
      return RealOf(f)->pMethods->xLock(RealOf(f), kind);
    };
    own->methods.xUnlock = [](sqlite3_file* f, int kind) {
      return RealOf(f)->pMethods->xUnlock(RealOf(f), kind);
    };
    own->methods.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return RealOf(f)->pMethods->xCheckReservedLock(RealOf(f), out);
    };
    own->methods.xFileControl = [](sqlite3_file* f, int what, void* argument) {
      return RealOf(f)->pMethods->xFileControl(RealOf(f), what, argument);
    };
    own->methods.xSectorSize = [](sqlite3_file* f) {
      return RealOf(f)->pMethods->xSectorSize(RealOf(f));
    };
    own->methods.xDeviceCharacteristics = [](sqlite3_file* f) {
      return RealOf(f)->pMethods->xDeviceCharacteristics(RealOf(f));
    };
    own->methods.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** to) {
      return RealOf(f)->pMethods->xShmMap(RealOf(f), page, size, extend, to);
    };
    own->methods.xShmLock = [](sqlite3_file* f, int offset, int count, int kind) {
      return RealOf(f)->pMethods->xShmLock(RealOf(f), offset, count, kind);
    };
    own->methods.xShmBarrier = [](sqlite3_file* f) { RealOf(f)->pMethods->xShmBarrier(RealOf(f)); };
    own->methods.xShmUnmap = [](sqlite3_file* f, int remove) {
      return RealOf(f)->pMethods->xShmUnmap(RealOf(f), remove);
    };
    file->pMethods = &own->methods;
    return SQLITE_OK;
  }

  static inline sqlite3_vfs* below_ = nullptr;
  static inline int unsynchronised_ = 0;
  static inline int synchronisations_ = 0;
  sqlite3_vfs vfs_{};
};

StoredChanges RowWith(uint64_t id, const std::string& bytes) {
  StoredChanges changes;
  changes.written.emplace_back(StoredKey{StoredKind::kDatabase, id}, bytes);
  return changes;
}

// Fails if a commit that is to be persisted returns before its journal is synchronised, or if
// others pay for that.
TEST(AccountsFileTest, PersistedCommitsAreSynchronised) {
  const TemporaryDirectory temporary;
  const WatchedFiles watched;
  std::unique_ptr<AccountsFile> file;
  ASSERT_OK(AccountsFile::Open(temporary / "accounts.db", AccountsFile::Mode::kReadWrite, &file));
  EXPECT_EQ(WatchedFiles::unsynchronised(), 0) << "a new file";
  for (uint64_t i = 0; i < 20; ++i) {
    const bool persist = i % 3 == 0;
    const int before = WatchedFiles::synchronisations();
    ASSERT_OK(file->Write(RowWith(i, std::string(100 * i, 'r')), persist));
    if (persist) {
      EXPECT_EQ(WatchedFiles::unsynchronised(), 0) << i;
      EXPECT_EQ(WatchedFiles::synchronisations(), before + 1) << i;
    } else {
      EXPECT_GT(WatchedFiles::unsynchronised(), 0) << i;
      EXPECT_EQ(WatchedFiles::synchronisations(), before) << i;
    }
  }
  StoredRows rows;
  ASSERT_OK(file->Load(&rows));
  EXPECT_EQ(rows.size(), 20u);
}

}  // namespace
}  // namespace dlsm
