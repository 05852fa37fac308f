#include "util/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numaif.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "port/processors.h"
#include "util/memory/huge_memory.h"
#include "util/numa_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// Fails if a node is taken that there is not, if it is not said which ones there are, or if a
// process that asks for none is refused.
TEST(NumaTest, KnowsWhichNodesThereAre) {
  FakeNuma machine{{0, {}}, {2, {}}, {3, {.allowed = false}}};
  EXPECT_OK(CheckNumaNode(0));
  EXPECT_OK(CheckNumaNode(2));
  EXPECT_OK(CheckNumaNode(kNoNumaNode));
  EXPECT_OK(CheckNumaNode(kNumaNodeOfDevice));
  for (const int node : {1, 3, 4, 5000, -3, INT32_MIN, INT32_MAX}) {
    const Status refused = CheckNumaNode(node);
    EXPECT_TRUE(refused.IsInvalidArgument()) << node;
    EXPECT_THAT(refused.ToString(), HasSubstr("there are: 0, 2")) << node;
  }
}

// Fails if a kernel without NUMA refuses a caller that asks for no node, or serves one that does.
TEST(NumaTest, AKernelWithoutItRefusesNodesOnly) {
  FakeNuma machine{};
  machine.available = false;
  EXPECT_OK(CheckNumaNode(kNoNumaNode));
  EXPECT_OK(CheckNumaNode(kNumaNodeOfDevice));
  const Status refused = CheckNumaNode(0);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("leave numa_node out"));
}

// Fails if the kernel is asked for other bytes, or to end the process rather than to take the
// memory of another node.
TEST(NumaTest, AsksForEachByteOnce) {
  FakeNuma machine{{0, {}}, {1, {}}};
  const uint64_t before = NumaUseOf(1).preferred_bytes;
  {
    const HugeMemory small(100, PageKind::kSmall, 1);
    HugeMemory huge(3 * kHugePageBytes, PageKind::kHuge, 1);
    const HugeMemory anywhere(4096);
    const std::vector<FakeNuma::Placed> placed = machine.placed();
    ASSERT_EQ(placed.size(), 2u);
    EXPECT_EQ(placed[0].data, small.data());
    EXPECT_EQ(placed[0].bytes, small.size());
    EXPECT_EQ(placed[1].data, huge.data());
    EXPECT_EQ(placed[1].bytes, 3 * kHugePageBytes);
    for (const FakeNuma::Placed& each : placed) {
      EXPECT_EQ(each.node, 1);
      EXPECT_EQ(each.placement, NumaSystem::Placement::kPreferred);
    }
    EXPECT_EQ(NumaUseOf(1).preferred_bytes - before, small.size() + huge.size());
    const HugeMemory moved(std::move(huge));
    EXPECT_EQ(NumaUseOf(1).preferred_bytes - before, small.size() + moved.size());
  }
  EXPECT_EQ(NumaUseOf(1).preferred_bytes, before);
}

// Fails if memory that the kernel does not place counts as if it had, or is an error.
TEST(NumaTest, ARefusalOfTheKernelIsNoError) {
  FakeNuma machine{{1, {}}};
  machine.placing_fails_with = EPERM;
  machine.running_fails_with = EINVAL;
  const uint64_t before = NumaUseOf(1).preferred_bytes;
  HugeMemory memory(4096, PageKind::kSmall, 1);
  memory.data()[0] = 1;
  EXPECT_EQ(NumaUseOf(1).preferred_bytes, before);
  std::string note;
  EXPECT_OK(BindMemory(memory.data(), memory.size(), 1, &note));
  EXPECT_THAT(note, HasSubstr("not bound to NUMA node 1: Operation not permitted"));
  const ThreadOnNumaNode thread(1);
  EXPECT_THAT(thread.status().ToString(), HasSubstr("not kept on NUMA node 1: Invalid argument"));
  EXPECT_EQ(NumaUseOf(1).threads, 0u);
}

std::vector<size_t> ProcessorsOfThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<size_t> processors;
  for (size_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

// Fails if a thread, or one that it makes, runs elsewhere, or stays there for good.
TEST(NumaTest, KeepsThreadsOnANode) {
  const std::vector<size_t> before = ProcessorsOfThisThread();
  const size_t last = before.back();
  FakeNuma machine{{0, {}}, {1, {.processor = static_cast<int>(last)}}};
  std::vector<size_t> made_meanwhile;
  {
    const ThreadOnNumaNode on_node(1);
    ASSERT_OK(on_node.status());
    EXPECT_EQ(NumaUseOf(1).threads, 1u);
    EXPECT_EQ(ProcessorsOfThisThread(), std::vector<size_t>{last});
    std::thread([&made_meanwhile] { made_meanwhile = ProcessorsOfThisThread(); }).join();
  }
  EXPECT_EQ(made_meanwhile, std::vector<size_t>{last});
  EXPECT_EQ(ProcessorsOfThisThread(), before);
  EXPECT_EQ(NumaUseOf(1).threads, 0u);
  EXPECT_THAT(machine.ThreadsOn(1), testing::ElementsAre(::gettid()));
}

// -------- This machine, whatever it has

struct Policy {
  int mode = -1;
  unsigned long nodes = 0;
};
Policy PolicyOf(char* data) {
  Policy policy;
  std::vector<unsigned long> nodes(64);
  EXPECT_EQ(::get_mempolicy(&policy.mode, nodes.data(), nodes.size() * 8 * sizeof(nodes[0]), data,
                            MPOL_F_ADDR),
            0);
  policy.nodes = nodes[0];
  return policy;
}

// Fails if the kernel understands something else than what is meant.
TEST(NumaTest, TheKernelPlacesMemory) {
  NumaSystem& machine = NumaSystem::Current();
  if (!machine.Available()) GTEST_SKIP() << "this kernel has no NUMA";
  const std::vector<int> nodes = machine.AllowedNodes();
  ASSERT_FALSE(nodes.empty());
  ASSERT_LT(nodes.back(), 64);
  for (const int node : nodes) {
    HugeMemory memory(1 << 20, PageKind::kSmall, node);
    EXPECT_EQ(PolicyOf(memory.data()).mode, MPOL_PREFERRED);
    EXPECT_EQ(PolicyOf(memory.data()).nodes, 1ul << node);
    std::string note;
    ASSERT_OK(BindMemory(memory.data(), memory.size(), node, &note));
    EXPECT_EQ(note, "on NUMA node " + std::to_string(node));
    EXPECT_EQ(PolicyOf(memory.data()).mode, MPOL_BIND);
    EXPECT_EQ(PolicyOf(memory.data()).nodes, 1ul << node);
    memory.data()[0] = 1;
    int at = -1;
    ASSERT_EQ(::get_mempolicy(&at, nullptr, 0, memory.data(), MPOL_F_NODE | MPOL_F_ADDR), 0);
    EXPECT_EQ(at, node);
    EXPECT_GT(machine.FreeBytes(node), 0u);
  }
  EXPECT_TRUE(CheckNumaNode(nodes.back() + 1).IsInvalidArgument());
}

// Fails if a thread gets processors back that it was not to use before.
TEST(NumaTest, AThreadOnANodeHasNoMoreProcessorsThanBefore) {
  NumaSystem& machine = NumaSystem::Current();
  if (!machine.Available()) GTEST_SKIP() << "this kernel has no NUMA";
  const std::vector<size_t> all = ProcessorsOfThisThread();
  bool ran = false;
  for (const int node : machine.AllowedNodes()) {
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(all.back(), &one);
      ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
      const ThreadOnNumaNode on_node(node);
      ran = ran || on_node.status().ok();  // Of other nodes it has no processor.
      EXPECT_EQ(ProcessorsOfThisThread(), std::vector<size_t>{all.back()});
    }).join();
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace dlsm
