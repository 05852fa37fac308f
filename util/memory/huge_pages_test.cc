#include "util/memory/huge_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dlsm {
namespace {

using ::testing::HasSubstr;

class HugePagesTest : public testing::Test {
 protected:
  HugePagesTest() { std::filesystem::remove_all(root_); }
  ~HugePagesTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  void Switch(const std::string& name, const std::string& text) const {
    Write("sys/kernel/mm/transparent_hugepage/" + name, text);
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_ = testing::TempDir() + "/" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

TEST_F(HugePagesTest, OfPrivateMemory) {
  EXPECT_FALSE(AnonymousHugePages(root()).offered);
  Switch("enabled", "always [madvise] never");
  EXPECT_TRUE(AnonymousHugePages(root()).offered);
  Switch("enabled", "always madvise [never]");
  const HugePages never = AnonymousHugePages(root());
  EXPECT_FALSE(never.offered);
  EXPECT_THAT(never.detail, HasSubstr("\"never\""));
  EXPECT_THAT(never.remedy, HasSubstr("echo madvise > /sys"));
}

// Fails if the kernel's switch for shared memory is taken for the mount's: "advise" there says
// nothing about a tmpfs that somebody has mounted.
TEST_F(HugePagesTest, OfShmTheMountDecides) {
  EXPECT_FALSE(ShmHugePages(root()).offered);
  Switch("shmem_enabled", "always within_size [advise] never deny force");
  Write("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,relatime,size=1024k 0 0");
  const HugePages without = ShmHugePages(root());
  EXPECT_FALSE(without.offered);
  EXPECT_THAT(without.remedy, HasSubstr("remount,huge=advise /dev/shm"));

  Switch("shmem_enabled", "always within_size advise [never] deny force");
  Write("proc/self/mounts",
        "tmpfs /run tmpfs rw,huge=always 0 0\nbad\n"
        "tmpfs /dev/shm tmpfs rw,huge=advise,size=1024k 0 0");
  EXPECT_TRUE(ShmHugePages(root()).offered);
  Write("proc/self/mounts",
        "tmpfs /dev/shm tmpfs rw,huge=advise 0 0\ntmpfs /dev/shm tmpfs rw,relatime 0 0");
  EXPECT_FALSE(ShmHugePages(root()).offered) << "the later mount covers the earlier one";

  Switch("shmem_enabled", "always within_size advise never deny [force]");
  EXPECT_TRUE(ShmHugePages(root()).offered);
  Switch("shmem_enabled", "always within_size advise never [deny] force");
  Write("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,huge=advise 0 0");
  EXPECT_THAT(ShmHugePages(root()).remedy, HasSubstr("echo never > /sys"));
}

}  // namespace
}  // namespace dlsm
