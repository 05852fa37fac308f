#include "memory_node/store/directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kCapacity = 1 << 20;

class DirectoryTest : public testing::Test {
 protected:
  DirectoryOptions Options() const {
    DirectoryOptions options;
    options.path = temporary_ / "data";
    options.capacity_bytes = kCapacity;
    options.machine_boot = "this boot";
    return options;
  }
  Status Open(const DirectoryOptions& options, std::unique_ptr<Directory>* directory) {
    opened_ = {};
    return Directory::Open(options, &opened_, directory);
  }
  // And writes the contents, as the keeper does with its first rows.
  std::unique_ptr<Directory> OpenOk(const DirectoryOptions& options) {
    std::unique_ptr<Directory> directory;
    EXPECT_OK(Open(options, &directory));
    StoredChanges changes;
    changes.written.emplace_back(StoredKey{StoredKind::kContents, 0}, opened_.contents.Encode());
    EXPECT_OK(directory->Write(changes, /*persist=*/true));
    return directory;
  }
  std::string MessageOf(const DirectoryOptions& options, Status::Code code) {
    std::unique_ptr<Directory> directory;
    const Status status = Open(options, &directory);
    EXPECT_EQ(status.code(), code) << status.ToString();
    return status.ToString();
  }
  static StoredChanges Database(uint64_t begin, uint64_t end) {
    StoredDatabase database;
    database.incarnation = 1;
    database.name = "d";
    database.manifest_version = 1;
    database.reasons = {{0, 0, {{begin, end}}}};
    StoredChanges changes;
    changes.written.emplace_back(StoredKey{StoredKind::kDatabase, 1}, database.Encode());
    changes.written.emplace_back(StoredKey{StoredKind::kManifest, 1},
                                 StoredManifest{1, "m"}.Encode(1));
    return changes;
  }

  TemporaryDirectory temporary_;
  Directory::Opened opened_;
};

// Fails if contents are lost or drawn anew at a restart, or a new directory has some.
TEST_F(DirectoryTest, ContentsOutliveTheProcess) {
  StoredContents contents;
  {
    const auto directory = OpenOk(Options());
    EXPECT_TRUE(opened_.made);
    EXPECT_FALSE(opened_.resumed);
    EXPECT_TRUE(opened_.state.databases.empty());
    contents = opened_.contents;
    ASSERT_OK(directory->Write(Database(0, 4096), /*persist=*/true));
    ASSERT_OK(directory->TakeDisk(0, 4096));
    ASSERT_EQ(pwrite(directory->region_descriptor(), "bytes", 5, 100), 5);
  }
  const auto directory = OpenOk(Options());
  EXPECT_FALSE(opened_.made);
  EXPECT_TRUE(opened_.resumed);
  EXPECT_EQ(opened_.contents, contents);
  ASSERT_EQ(opened_.state.databases.size(), 1u);
  EXPECT_EQ(opened_.state.databases[0].name, "d");
  char bytes[5];
  ASSERT_EQ(pread(directory->region_descriptor(), bytes, 5, 100), 5);
  EXPECT_EQ(std::string(bytes, 5), "bytes");
}

// Fails if clients of before a power failure would go on: what they wrote may be lost. Or if
// anything goes on as the contents that are there would not be.
TEST_F(DirectoryTest, APowerFailureIsAnotherBoot) {
  OpenOk(Options()).reset();
  const StoredContents before = opened_.contents;
  DirectoryOptions options = Options();
  options.machine_boot = "another boot";
  OpenOk(options).reset();
  EXPECT_FALSE(opened_.resumed);
  EXPECT_EQ(opened_.contents.contents, before.contents);
  EXPECT_NE(opened_.contents.boot, before.boot);
  EXPECT_NE(opened_.contents.persistence, before.persistence);

  // With its clients gone a process has another boot, and has lost no bytes.
  const StoredContents second = opened_.contents;
  options.clients_outlive = false;
  OpenOk(options).reset();
  EXPECT_FALSE(opened_.resumed);
  EXPECT_NE(opened_.contents.boot, second.boot);
  EXPECT_EQ(opened_.contents.persistence, second.persistence);
}

// Fails if a process that is killed before it has written a row makes the next one believe rows of
// before the power failure: clients would be taken up whose bytes may be lost.
TEST_F(DirectoryTest, AStartThatIsCutShortIsNone) {
  OpenOk(Options()).reset();
  const StoredContents before = opened_.contents;
  DirectoryOptions options = Options();
  options.machine_boot = "another boot";
  for (int times = 0; times < 2; ++times) {
    std::unique_ptr<Directory> directory;
    ASSERT_OK(Open(options, &directory));
    EXPECT_FALSE(opened_.resumed);
    EXPECT_NE(opened_.contents.boot, before.boot);
    EXPECT_NE(opened_.contents.persistence, before.persistence);
  }
  OpenOk(options).reset();
  OpenOk(options).reset();
  EXPECT_TRUE(opened_.resumed);
}

// Fails if two processes write to one directory.
TEST_F(DirectoryTest, OneProcessAtATime) {
  const auto directory = OpenOk(Options());
  const std::string message = MessageOf(Options(), Status::Code::kBusy);
  EXPECT_THAT(message, AllOf(HasSubstr(Options().path), HasSubstr("in use by another process"),
                             HasSubstr(std::to_string(getpid()))));
}

// Fails if data that lies where there is to be no memory is cut off, or clients go on that do not
// know the new size.
TEST_F(DirectoryTest, TheSizeMayChange) {
  {
    const auto directory = OpenOk(Options());
    ASSERT_OK(directory->Write(Database(kCapacity - 4096, kCapacity), /*persist=*/true));
  }
  DirectoryOptions options = Options();
  options.capacity_bytes = kCapacity / 2;
  EXPECT_THAT(MessageOf(options, Status::Code::kInvalidArgument),
              AllOf(HasSubstr("has data beyond"), HasSubstr(options.path)));
  options.capacity_bytes = 2 * kCapacity;
  OpenOk(options).reset();
  EXPECT_FALSE(opened_.resumed);
  EXPECT_EQ(std::filesystem::file_size(options.path + "/dlsm-memory"), 2 * kCapacity);
  options.capacity_bytes = 0;  // As it is.
  OpenOk(options).reset();
  EXPECT_EQ(opened_.contents.capacity_bytes, 2 * kCapacity);
}

// Fails if a program of another version reads what it does not understand.
TEST_F(DirectoryTest, OtherVersionsAreRefused) {
  OpenOk(Options()).reset();
  const std::string command =
      "sqlite3 " + Options().path + "/accounts.db 'PRAGMA user_version=99' 2>/dev/null";
  if (system(command.c_str()) != 0) GTEST_SKIP() << "there is no sqlite3 here";
  EXPECT_THAT(MessageOf(Options(), Status::Code::kInvalidArgument),
              AllOf(HasSubstr("accounts.db is of version 99"), HasSubstr("use the program")));
}

// Fails if damage is served, or the message does not name the file and what to do.
TEST_F(DirectoryTest, DamagedFilesAreRefused) {
  const auto damage_is_noticed = [&](const char* file, auto damage) {
    std::filesystem::remove_all(Options().path);
    {
      const auto directory = OpenOk(Options());
      ASSERT_OK(directory->Write(Database(0, 4096), /*persist=*/true));
    }
    damage(Options().path + "/" + file);
    EXPECT_THAT(MessageOf(Options(), Status::Code::kCorruption),
                AllOf(HasSubstr(file), HasSubstr("restore the directory from a copy")));
  };
  const auto flip = [](uint64_t at) {
    return [at](const std::string& path) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 0x40));
    };
  };
  const auto flip_row = [&](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(file), {});
    const std::string row = Database(0, 4096).written[0].second;
    const size_t at = all.find(row);
    ASSERT_NE(at, std::string::npos);
    flip(at + row.size() / 2)(path);
  };
  damage_is_noticed("accounts.db", flip(1));  // SQLite's head.
  damage_is_noticed("accounts.db", flip_row);
  damage_is_noticed("dlsm-memory", [](const std::string& path) {
    std::filesystem::resize_file(path, kCapacity / 2);
  });
}

// Fails if a memory node begins beside files of somebody else.
TEST_F(DirectoryTest, OtherFilesAreLeftAlone) {
  DirectoryOptions options = Options();
  std::filesystem::create_directory(options.path);
  std::ofstream(options.path + "/photo.jpg") << "mine";
  EXPECT_THAT(MessageOf(options, Status::Code::kInvalidArgument),
              AllOf(HasSubstr("photo.jpg"), HasSubstr("empty directory")));
  options.path += "/photo.jpg";
  EXPECT_THAT(MessageOf(options, Status::Code::kInvalidArgument), HasSubstr("is no directory"));
  options.path = temporary_ / "missing/data";
  EXPECT_THAT(MessageOf(options, Status::Code::kIOError),
              AllOf(HasSubstr(options.path), HasSubstr("make the directory that it is to be in")));
}

// Fails if a directory that may not be written ends the process, or is used all the same.
TEST_F(DirectoryTest, ADirectoryThatMayNotBeWritten) {
  DirectoryOptions options = Options();
  options.path = "/proc/data";
  EXPECT_THAT(MessageOf(options, Status::Code::kIOError), HasSubstr("/proc/data"));
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  options = Options();
  std::filesystem::create_directory(options.path);
  chmod(options.path.c_str(), 0500);
  EXPECT_THAT(MessageOf(options, Status::Code::kIOError),
              AllOf(HasSubstr(options.path), HasSubstr("the right to write")));
}

// Fails if a directory whose making was cut short can never be used.
TEST_F(DirectoryTest, AMakingThatWasCutShortIsDoneAgain) {
  OpenOk(Options()).reset();
  std::filesystem::resize_file(Options().path + "/accounts.db", 0);
  OpenOk(Options()).reset();
  EXPECT_TRUE(opened_.made);
}

// Fails if bytes that are given back stay on the disk, or what was promised is not there.
TEST_F(DirectoryTest, TheDiskHasWhatIsUsed) {
  const auto directory = OpenOk(Options());
  const auto blocks = [&] {
    struct stat attributes {};
    fstat(directory->region_descriptor(), &attributes);
    return static_cast<uint64_t>(attributes.st_blocks) * 512;
  };
  EXPECT_LT(blocks(), 65536u);
  ASSERT_OK(directory->TakeDisk(0, kCapacity));
  EXPECT_GE(blocks(), kCapacity);
  directory->GiveBackDisk(0, kCapacity / 2);
  EXPECT_LE(blocks(), kCapacity / 2 + 65536);
  EXPECT_GT(directory->FreeDiskBytes(), 0u);
}

// Fails if reading ahead does not read, or writes.
TEST_F(DirectoryTest, ReadsAhead) {
  const auto directory = OpenOk(Options());
  void* const data = mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE, MAP_SHARED,
                          directory->region_descriptor(), 0);
  ASSERT_NE(data, MAP_FAILED);
  directory->MappedAt(static_cast<char*>(data), kCapacity);
  StoredState state;
  state.databases.emplace_back().reasons = {{0, 0, {{4096, kCapacity}}}};
  EXPECT_OK(directory->ReadAhead(state));
  EXPECT_OK(directory->PersistBytes(100, 5000));
  munmap(data, kCapacity);
}

// Fails if a look at a directory changes it, or misses what is wrong with it.
TEST_F(DirectoryTest, Inspect) {
  std::unique_ptr<Directory> directory;
  EXPECT_TRUE(Directory::Inspect(temporary_.path(), &opened_, &directory).IsInvalidArgument());
  EXPECT_FALSE(Directory::IsAt(temporary_.path()));
  EXPECT_FALSE(Directory::IsAt(Options().path));
  {
    const auto open = OpenOk(Options());
    ASSERT_OK(open->Write(Database(0, 4096), /*persist=*/true));
    EXPECT_TRUE(Directory::Inspect(Options().path, &opened_, &directory).IsBusy());
  }
  opened_ = {};
  ASSERT_OK(Directory::Inspect(Options().path, &opened_, &directory));
  EXPECT_EQ(opened_.state.databases.size(), 1u);
  EXPECT_TRUE(Directory::IsAt(Options().path));
  EXPECT_FALSE(opened_.resumed);  // It is of the test's boot, and that is not the machine's.
  directory.reset();

  DirectoryOptions of_the_machine = Options();
  of_the_machine.machine_boot.clear();
  OpenOk(of_the_machine).reset();
  opened_ = {};
  ASSERT_OK(Directory::Inspect(Options().path, &opened_, &directory));
  EXPECT_TRUE(opened_.resumed);
  const std::string region = directory->region_path();
  directory.reset();

  ASSERT_EQ(truncate(region.c_str(), kCapacity - 1), 0);
  opened_ = {};
  const Status cut_off = Directory::Inspect(Options().path, &opened_, &directory);
  EXPECT_TRUE(cut_off.IsCorruption());
  EXPECT_THAT(cut_off.ToString(), AllOf(HasSubstr(region), HasSubstr("restore")));
}

}  // namespace
}  // namespace dlsm
