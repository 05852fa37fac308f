// Regions: their memory, their files, and what becomes of files whose owner was killed.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "port/sync_point.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/mapped/memory_mapping.h"
#include "util/fabric/mapped/shm_file.h"
#include "util/file_descriptor.h"
#include "util/memory/huge_memory.h"
#include "util/numa.h"
#include "util/numa_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

RegionOptions Options(FabricKind kind, uint64_t bytes) {
  RegionOptions options;
  options.id = RegionId{1};
  options.kind = kind;
  options.bytes = bytes;
  options.name = "region/test";
  return options;
}

TEST(RegionTest, IsZeroedWritableMemoryWithANote) {
  for (const FabricKind kind : {FabricKind::kLocal, FabricKind::kShm, FabricKind::kTcp}) {
    std::unique_ptr<ExportedRegion> region;
    const Status status = CreateRegion(Options(kind, 5'000'001), &region);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(region->info().bytes, 5'000'001u);
    EXPECT_EQ(region->data()[5'000'000], 0);
    region->data()[5'000'000] = 1;
    EXPECT_NE(region->note().find("huge pages"), std::string::npos) << region->note();
    EXPECT_EQ(region->info().shm_path.empty(), kind != FabricKind::kShm);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % (2u << 20), 0u);
  }
}

TEST(RegionTest, ItsFileIsPrivateAndGoesWithIt) {
  std::unique_ptr<ExportedRegion> region;
  ASSERT_TRUE(CreateRegion(Options(FabricKind::kShm, 1 << 20), &region).ok());
  const std::string path = region->info().shm_path;
  EXPECT_TRUE(path.starts_with("/dev/shm/dlsm-region_test-")) << path;
  struct stat attributes {};
  ASSERT_EQ(::stat(path.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);
  EXPECT_EQ(attributes.st_blocks, 0) << "memory is taken when it is written, not before";
  region.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RegionTest, TakesAllMemoryAtOnceIfAsked) {
  constexpr uint64_t kBytes = uint64_t{80} << 20;
  std::unique_ptr<ExportedRegion> region;
  ASSERT_TRUE(CreateRegion(Options(FabricKind::kShm, kBytes), &region).ok());
  region->TakeAllPages();
  struct stat attributes {};
  ASSERT_EQ(::stat(region->info().shm_path.c_str(), &attributes), 0);
  constexpr uint64_t kBlockBytes = 512;  // Of stat(2).
  if (static_cast<uint64_t>(attributes.st_blocks) * kBlockBytes < kBytes) {
    EXPECT_NE(region->note().find("the rest when it is written"), std::string::npos)
        << region->note();
  }
}

// Whether a huge page of shared memory can be had at all: the kernel may be too old, forbid it, or
// have none left.
bool KernelGivesHugePages() {
  std::unique_ptr<ExportedRegion> region;
  EXPECT_TRUE(CreateRegion(Options(FabricKind::kShm, kHugePageBytes), &region).ok());
  *region->data() = 1;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  return ::madvise(region->data(), kHugePageBytes, kCollapse) == 0;
}

// As /proc/self/smaps has it.
uint64_t HugeBytesMapped(const MemoryMapping& mapping) {
  const std::string start = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(mapping.data()));
  std::ifstream file("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    if (line.find('-') < line.find(' ')) here = line.starts_with(start);
    unsigned long kibibytes = 0;
    if (here && std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kibibytes) == 1) {
      return kibibytes * 1024;
    }
  }
  return 0;
}

// Fails if small pages are left where huge ones are to be had, if who maps the memory as clients do
// has small ones, or if what was written is lost.
TEST(RegionTest, TakesHugePagesForWhoeverMapsThem) {
  if (!KernelGivesHugePages()) GTEST_SKIP() << "this kernel gives none";
  constexpr uint64_t kWhole = uint64_t{70} << 20;
  constexpr uint64_t kBytes = kWhole + 4096;
  std::unique_ptr<ExportedRegion> region;
  if (!CreateRegion(Options(FabricKind::kShm, kBytes), &region).ok()) GTEST_SKIP() << "no room";
  for (size_t i = 0; i < kBytes; i += 100'003) region->data()[i] = static_cast<char>(i);
  region->TakeAllPages();
  const FileDescriptor file(::open(region->info().shm_path.c_str(), O_RDWR | O_CLOEXEC));
  MemoryMapping other;
  ASSERT_TRUE(MemoryMapping::File(file.get(), kBytes, &other).ok());
  for (size_t i = 0; i < kBytes; i += 100'003) {
    ASSERT_EQ(other.data()[i], static_cast<char>(i)) << "at " << i;
  }
  EXPECT_TRUE(region->note().starts_with("huge pages")) << region->note();
  // A machine that has few is no reason to fail.
  if (region->note() == "huge pages") {
    EXPECT_EQ(HugeBytesMapped(other), kWhole);
  }
}

TEST(RegionTest, RefusesWhatDoesNotFitAndSaysWhatToDo) {
  std::unique_ptr<ExportedRegion> region;
  for (const FabricKind kind : {FabricKind::kLocal, FabricKind::kShm}) {
    const Status status = CreateRegion(Options(kind, uint64_t{1} << 50), &region);
    EXPECT_TRUE(status.IsIOError());
    EXPECT_NE(status.ToString().find("ask for less"), std::string::npos) << status.ToString();
  }
  ShmFile file;
  const Status status = ShmFile::Create("test", uint64_t{1} << 50, &file);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_NE(status.ToString().find("remount"), std::string::npos) << status.ToString();
  EXPECT_TRUE(CreateRegion(Options(FabricKind::kLocal, 0), &region).IsInvalidArgument());
  EXPECT_EQ(region, nullptr);
}

// Fails if memory is promised that the process's control group does not allow: it would be ended,
// in the middle of its work, when it comes to use it.
TEST(RegionTest, RefusesWhatItsControlGroupDoesNotAllow) {
  const std::filesystem::path root =
      testing::TempDir() + fmt::format("dlsm-region-limit-{}/", ::getpid());
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup");
  std::ofstream(root / "proc/self/cgroup") << "0::/\n";
  std::ofstream(root / "sys/fs/cgroup/memory.max") << (2 << 20) << "\n";
  for (const FabricKind kind : {FabricKind::kLocal, FabricKind::kShm}) {
    std::unique_ptr<ExportedRegion> region;
    RegionOptions options = Options(kind, (2 << 20) + 1);
    options.root = root.string();
    const Status refused = CreateRegion(options, &region);
    EXPECT_TRUE(refused.IsIOError()) << refused.ToString();
    EXPECT_NE(refused.ToString().find("control groups"), std::string::npos) << refused.ToString();
    options.bytes = 2 << 20;
    const Status made = CreateRegion(options, &region);
    EXPECT_TRUE(made.ok()) << made.ToString();
  }
  std::filesystem::remove_all(root);
}

TEST(RegionTest, RefusesANumaNodeThatIsNotThere) {
  std::unique_ptr<ExportedRegion> region;
  RegionOptions options = Options(FabricKind::kLocal, 1 << 20);
  options.numa_node = 5000;
  EXPECT_TRUE(CreateRegion(options, &region).IsInvalidArgument());
  {
    FakeNuma machine{{0, {}}, {1, {}}};
    options.numa_node = 1;
    ASSERT_OK(CreateRegion(options, &region));
    EXPECT_EQ(region->note().substr(region->note().rfind(';')), "; on NUMA node 1");
    ASSERT_EQ(machine.placed().size(), 1u);
    EXPECT_EQ(machine.placed()[0].data, region->data());
    EXPECT_EQ(machine.placed()[0].bytes, options.bytes);
    EXPECT_EQ(machine.placed()[0].placement, NumaSystem::Placement::kBound);
    machine.available = false;
    EXPECT_TRUE(CreateRegion(options, &region).IsNotSupported());
    options.numa_node = kNoNumaNode;
    ASSERT_OK(CreateRegion(options, &region));
  }
  if (!NumaSystem::Current().Available()) return;
  options.numa_node = NumaSystem::Current().AllowedNodes().front();
  const Status status = CreateRegion(options, &region);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_NE(region->note().find("on NUMA node"), std::string::npos) << region->note();
}

// Fails if a killed owner's file stays for good, or if a living owner's, or somebody else's, goes.
TEST(RegionTest, RemovesOnlyFilesThatNobodyHolds) {
  const std::string stale = "/dev/shm/dlsm-stale-1-0123456789abcdef";
  const std::string foreign = "/dev/shm/other-stale-1-0123456789abcdef";
  std::ofstream(stale) << "left";
  std::ofstream(foreign) << "not ours";
  std::unique_ptr<ExportedRegion> alive;
  ASSERT_TRUE(CreateRegion(Options(FabricKind::kShm, 4096), &alive).ok());
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  std::filesystem::remove(foreign);

  std::unique_ptr<ExportedRegion> second;
  ASSERT_TRUE(CreateRegion(Options(FabricKind::kShm, 4096), &second).ok());
  EXPECT_TRUE(std::filesystem::exists(alive->info().shm_path));
}

// Fails if the same room is promised twice: whoever writes last would be killed.
TEST(RegionTest, RoomIsPromisedOnce) {
  struct statvfs space {};
  ASSERT_EQ(::statvfs("/dev/shm", &space), 0);
  const uint64_t room = uint64_t{space.f_bavail} * space.f_frsize;
  ShmFile second;
  {
    ShmFile first;
    // Other processes use the folder as well.
    if (!ShmFile::Create("first", room / 5 * 3, &first).ok()) GTEST_SKIP() << "no room for a half";
    const Status status = ShmFile::Create("second", room / 5 * 3, &second);
    EXPECT_TRUE(status.IsIOError());
    EXPECT_NE(status.ToString().find("promised to other memory nodes"), std::string::npos)
        << status.ToString();
    EXPECT_EQ(second.path(), "");
    // One whose owner is gone has none.
    const std::string stale = fmt::format("/dev/shm/dlsm-stale-{}", ::getpid());
    std::ofstream(stale).put('x');
    ASSERT_EQ(::truncate(stale.c_str(), static_cast<off_t>(room)), 0);
    const Status small = ShmFile::Create("second", 4096, &second);
    std::filesystem::remove(stale);
    EXPECT_TRUE(small.ok()) << small.ToString();
  }
  const Status status = ShmFile::Create("second", room / 5 * 3, &second);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

// Fails if room is granted that somebody takes just then who was promised it: it was in neither of
// the two numbers.
TEST(RegionTest, WhatIsTakenMeanwhileIsNotGranted) {
  struct statvfs space {};
  ASSERT_EQ(::statvfs("/dev/shm", &space), 0);
  const uint64_t room = uint64_t{space.f_bavail} * space.f_frsize;
  ShmFile first;
  if (!ShmFile::Create("first", room / 2, &first).ok()) GTEST_SKIP() << "no room for a half";
  static std::string path;
  path = first.path();
  // As if its owner had taken all of it; but it would be much.
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (std::string(place) == "shm file: promises counted") {
      EXPECT_EQ(::truncate(path.c_str(), 0), 0);
    }
  };
  ShmFile second;
  const Status status = ShmFile::Create("second", room / 5 * 4, &second);
  port::SyncPointHookOfProcess() = nullptr;
  EXPECT_TRUE(status.IsIOError());
  EXPECT_NE(status.ToString().find("promised to other memory nodes"), std::string::npos)
      << status.ToString();
}

// Fails if the lock does not end with its owner, or a peer connects to a dead owner's memory.
TEST(RegionTest, AKilledOwnersFileIsStale) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto file = std::make_unique<ShmFile>();
    std::string path = "?";
    if (ShmFile::Create("killed", 4096, file.get()).ok()) path = file->path();
    (void)!::write(ready[1], path.data(), path.size());
    while (true) ::pause();
  }
  std::string path(200, '\0');
  path.resize(
      static_cast<size_t>(std::max<ssize_t>(0, ::read(ready[0], path.data(), path.size()))));
  ::close(ready[0]);
  ::close(ready[1]);
  FileDescriptor opened;
  EXPECT_TRUE(OpenShmFile(path, 4096, &opened).ok());
  ::kill(owner, SIGKILL);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);

  const Status status = OpenShmFile(path, 4096, &opened);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find("gone"), std::string::npos) << status.ToString();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_GE(RemoveStaleShmFiles(), 1);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Fails if a peer can make this process open a file of its choice, or map past a file's end.
TEST(RegionTest, OpensOnlyMemoryNodesFiles) {
  std::unique_ptr<ExportedRegion> region;
  ASSERT_TRUE(CreateRegion(Options(FabricKind::kShm, 4096), &region).ok());
  const std::string path = region->info().shm_path;
  FileDescriptor file;
  EXPECT_TRUE(OpenShmFile(path, 4096, &file).ok());
  EXPECT_TRUE(OpenShmFile(path, 4097, &file).IsIOError());
  EXPECT_TRUE(OpenShmFile(path + "x", 1, &file).IsIOError());
  EXPECT_TRUE(OpenShmFile("/etc/passwd", 1, &file).IsInvalidArgument());
  EXPECT_TRUE(OpenShmFile("/dev/shm/dlsm-x/../../../etc/passwd", 1, &file).IsInvalidArgument());
  EXPECT_TRUE(OpenShmFile("", 1, &file).IsInvalidArgument());
  const std::string link = "/dev/shm/dlsm-link-test";
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/etc/passwd", link);
  EXPECT_TRUE(OpenShmFile(link, 1, &file).IsIOError());
  std::filesystem::remove(link);
}

}  // namespace
}  // namespace dlsm
