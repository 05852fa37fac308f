// Registered memory, over a device that is not there.
#include "util/fabric/verbs/verbs_buffers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "port/failing_allocations_testing.h"
#include "util/fabric/children_testing.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/numa.h"
#include "util/numa_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class VerbsBuffersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::shared_ptr<const VerbsDevice> device;
    ASSERT_OK(fake_.Open({}, &device));
    ASSERT_OK(VerbsDomain::Create(device, &domain_));
  }
  std::shared_ptr<VerbsBuffers> NewPool() const { return std::make_shared<VerbsBuffers>(domain_); }

 private:
  FakeVerbs fake_;
  std::shared_ptr<const VerbsDomain> domain_;
};

// Fails if a process that forks may have its device write where nobody reads any more: before Linux
// 5.12 the first to write to a page after a fork gets another one.
TEST_F(VerbsBuffersTest, NoChildHasTheirMemory) {
  const auto buffers = NewPool();
  RegisteredBuffer cut, large;
  ASSERT_OK(buffers->NewBuffer(4096, &cut));
  ASSERT_OK(buffers->NewBuffer(size_t{16} << 20, &large));
  EXPECT_TRUE(IsKeptFromChildren(cut.data()));
  EXPECT_TRUE(IsKeptFromChildren(large.data()));
  EXPECT_FALSE(IsKeptFromChildren(&cut));
}

// Buffers come back where there is no memory to keep them. Fails if that ends the process, or if
// none can be had after it.
TEST_F(VerbsBuffersTest, OnesThatThereIsNoMemoryToKeepAreLetGo) {
  const auto buffers = NewPool();
  for (const size_t bytes : {size_t{4096}, size_t{16} << 20}) {
    RegisteredBuffer buffer;
    ASSERT_OK(buffers->NewBuffer(bytes, &buffer));
    {
      const port::FailingAllocationsAt failing("buffer kept");
      buffer = RegisteredBuffer();
      EXPECT_EQ(failing.failed(), 1u);
    }
    ASSERT_OK(buffers->NewBuffer(bytes, &buffer));
    EXPECT_EQ(buffer.bytes(), bytes);
  }
}

// A device may still write to all buffers. Fails if the memory of one that comes back is unmapped,
// whatever comes back after it, or that of the pool when its owner lets go of it.
TEST_F(VerbsBuffersTest, AbandonedOnesStay) {
  auto buffers = NewPool();
  auto others = NewPool();
  constexpr size_t kLarge = size_t{16} << 20;
  RegisteredBuffer cut;
  RegisteredBuffer large;
  RegisteredBuffer another;
  RegisteredBuffer of_others;
  ASSERT_OK(buffers->NewBuffer(4096, &cut));
  ASSERT_OK(buffers->NewBuffer(kLarge, &large));
  ASSERT_OK(buffers->NewBuffer(kLarge, &another));
  ASSERT_OK(others->NewBuffer(kLarge, &of_others));
  char* const places[] = {cut.data(), large.data(), another.data(), of_others.data()};
  buffers->Abandon();
  others->Abandon();
  buffers->Abandon();
  EXPECT_FALSE(buffers->NewBuffer(4096, &cut).ok());
  cut = large = another = of_others = RegisteredBuffer();
  buffers.reset();
  others.reset();
  for (char* const place : places) EXPECT_EQ(::msync(place, 4096, MS_ASYNC), 0);
}

// Fails if that may happen to a memory node's region.
TEST(VerbsRegionTest, NoChildHasAMemoryNodesRegion) {
  RegionOptions options;
  options.id = RegionId{1};
  options.bytes = 1 << 20;
  options.kind = FabricKind::kVerbs;
  std::unique_ptr<ExportedRegion> region;
  ASSERT_OK(CreateRegion(options, &region));
  EXPECT_TRUE(IsKeptFromChildren(region->data()));
}

// Fails if a device's node is not found, if what it reaches lies elsewhere, or if a node counts
// that this process may not use.
TEST(VerbsNodeTest, BuffersAreOnTheDevicesNode) {
  const Status may_lock = CheckLockedMemory(uint64_t{16} << 20);
  if (!may_lock.ok()) GTEST_SKIP() << may_lock.ToString();
  const std::string folder = testing::TempDir() + "dlsm-device-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder + "/device");
  FakeNuma machine{{0, {}}, {1, {}}, {2, {.allowed = false}}};
  const struct {
    const char* file;
    int of_device;
    int wished;
    int expected;
  } kCases[] = {
      {"1\n", 1, kNumaNodeOfDevice, 1},
      {"1\n", 1, kNoNumaNode, kNoNumaNode},
      {"1\n", 1, 0, 0},
      {"2\n", 2, kNumaNodeOfDevice, kNoNumaNode},
      {"-1\n", kNoNumaNode, kNumaNodeOfDevice, kNoNumaNode},
      {"", kNoNumaNode, kNumaNodeOfDevice, kNoNumaNode},
  };
  for (const auto& [file, of_device, wished, expected] : kCases) {
    SCOPED_TRACE(testing::Message() << "the file says \"" << file << "\", wished is " << wished);
    std::ofstream(folder + "/device/numa_node") << file;
    FakeVerbs fake;
    fake.set_folder(folder);
    std::shared_ptr<const VerbsDevice> device;
    ASSERT_OK(fake.Open({}, &device));
    EXPECT_EQ(device->numa_node(), of_device);
    TestMemoryNode node(size_t{1} << 20, device);
    std::unique_ptr<FabricConnection> connection;
    ASSERT_OK(VerbsConnection::ConnectThrough(device, wished, node.Peer(), &connection));
    EXPECT_EQ(connection->numa_node(), expected);
    const size_t placed_before = machine.placed().size();
    for (const size_t bytes : {size_t{4096}, size_t{4} << 20}) {
      RegisteredBuffer buffer;
      ASSERT_OK(connection->NewBuffer(bytes, &buffer));
      if (expected == kNoNumaNode) {
        EXPECT_EQ(machine.placed().size(), placed_before);
      } else {
        EXPECT_EQ(machine.NodeOf(buffer.data()), expected);
        EXPECT_EQ(machine.NodeOf(buffer.data() + bytes - 1), expected);
      }
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dlsm
