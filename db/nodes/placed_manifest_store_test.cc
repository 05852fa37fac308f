// A home and two other nodes, played by a model that keeps what a memory node keeps: what is held,
// what is live, and whether anything that a manifest refers to has ever been given to others.
#include "db/nodes/placed_manifest_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

RemoteSpan SpanAt(uint32_t node, uint64_t offset) {
  return RemoteSpan{NodeId{node}, RegionId{1}, offset, 64};
}

std::set<uint64_t> OffsetsOf(const std::vector<RemoteSpan>& spans) {
  std::set<uint64_t> offsets;
  for (const RemoteSpan& span : spans) offsets.insert(span.offset);
  return offsets;
}

// What happens to a call.
enum class Fate { kTaken, kLost, kAnswerLost };

class FakeNode final : public ManifestStore {
 public:
  Status Put(const std::string& manifest, std::vector<RemoteSpan> live) override {
    ++puts;
    const Fate now = fate ? fate() : Fate::kTaken;
    if (now == Fate::kLost) return Status::TimedOut("lost on its way");
    for (const uint64_t offset : OffsetsOf(live)) {
      EXPECT_TRUE(held.contains(offset)) << "live, but given back: " << offset;
    }
    kept = OffsetsOf(live);
    bytes = manifest;
    return now == Fate::kTaken ? Status::OK() : Status::TimedOut("the answer is lost");
  }
  // What the memory node does with a free.
  void Free(uint64_t offset) { held.erase(offset); }
  // Others may have it.
  bool IsFree(uint64_t offset) const { return !held.contains(offset) && !kept.contains(offset); }

  std::function<Fate()> fate;
  int puts = 0;
  std::string bytes;
  std::set<uint64_t> held;
  std::set<uint64_t> kept;
};

class PlacedManifestStoreTest : public testing::Test {
 protected:
  PlacedManifestStoreTest() {
    for (const uint32_t node : {2u, 3u}) store_.AddNode(NodeId{node}, &nodes_[node], {});
  }

  RemoteSpan New(uint32_t node) {
    nodes_[node].held.insert(++next_offset_);
    return SpanAt(node, next_offset_);
  }
  Status Put(const std::string& manifest, const std::vector<RemoteSpan>& live) {
    return store_.Put(manifest, live);
  }
  std::set<uint64_t> Kept(uint32_t node) { return nodes_[node].kept; }

  uint64_t next_offset_ = 0;
  std::map<uint32_t, FakeNode> nodes_ = {{1, {}}, {2, {}}, {3, {}}};
  PlacedManifestStore store_{&nodes_[1]};
};

// Fails if a list does not come with what it says, or damaged ones pass.
TEST(LiveListTest, ComesBackOrNotAtAll) {
  LiveList list;
  list.spans = {SpanAt(2, 64), SpanAt(2, uint64_t{1} << 40)};
  const std::string bytes = list.Encode();
  LiveList again;
  ASSERT_OK(again.Decode(bytes));
  EXPECT_EQ(again.spans, list.spans);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(again.Decode(Slice(bytes.data(), length)).IsCorruption()) << length;
  }
  EXPECT_TRUE(again.Decode(bytes + "x").IsCorruption());
}

// Fails if a node is told what is not its own, later than the home, or when nothing has changed.
TEST_F(PlacedManifestStoreTest, TellsNodesBeforeTheHome) {
  const RemoteSpan at_home = New(1);
  const RemoteSpan at_two = New(2);
  nodes_[1].fate = [this, &at_two] {
    EXPECT_EQ(Kept(2), std::set<uint64_t>{at_two.offset});
    return Fate::kTaken;
  };
  ASSERT_OK(Put("m1", {at_home, at_two}));
  EXPECT_EQ(Kept(1), std::set<uint64_t>{at_home.offset});
  EXPECT_EQ(nodes_[3].puts, 0);
  ASSERT_OK(Put("m2", {at_home, at_two}));
  EXPECT_EQ(nodes_[2].puts, 1);
  LiveList list;
  ASSERT_OK(list.Decode(nodes_[2].bytes));
  EXPECT_EQ(list.spans, std::vector<RemoteSpan>{at_two});
}

// Fails if a list is cut down before the manifest has been, so that a compute node that dies in
// between leaves a manifest of memory that is free.
TEST_F(PlacedManifestStoreTest, KeepsTheOldUntilTheManifestIsTaken) {
  const RemoteSpan old_span = New(2);
  ASSERT_OK(Put("m1", {old_span}));
  const RemoteSpan new_span = New(2);
  nodes_[1].fate = [] { return Fate::kLost; };
  EXPECT_TRUE(Put("m2", {new_span}).IsTimedOut());
  EXPECT_EQ(Kept(2), (std::set<uint64_t>{old_span.offset, new_span.offset}));
  EXPECT_FALSE(store_.BeforeFrees(NodeId{2}).ok()) << "either manifest may be in force";
  EXPECT_EQ(Kept(2), (std::set<uint64_t>{old_span.offset, new_span.offset}));
  nodes_[1].fate = nullptr;
  const int puts = nodes_[1].puts;
  EXPECT_TRUE(store_.BeforeFrees(NodeId{2}).IsBusy()) << "it is still not known";
  EXPECT_EQ(nodes_[1].puts, puts) << "of another node's house";
  ASSERT_OK(store_.EndDoubt());
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_EQ(nodes_[1].bytes, "m1");
  EXPECT_EQ(Kept(2), std::set<uint64_t>{old_span.offset});
}

// While a put at the home hangs, and what became of the one before is not known. Fails if who sends
// another node's frees waits for it, or who keeps the home's house for whoever puts (both hang).
TEST_F(PlacedManifestStoreTest, NobodysHouseWaitsForAPut) {
  const RemoteSpan old_span = New(2);
  ASSERT_OK(Put("m1", {old_span}));
  nodes_[1].fate = [] { return Fate::kLost; };
  EXPECT_TRUE(Put("m2", {New(2)}).IsTimedOut());
  nodes_[1].fate = [this] {
    std::thread others([this] {
      EXPECT_TRUE(store_.BeforeFrees(NodeId{2}).IsBusy());
      EXPECT_OK(store_.TryEndDoubt());
    });
    others.join();
    return Fate::kLost;
  };
  EXPECT_TRUE(Put("m3", {New(3)}).IsTimedOut());
  nodes_[1].fate = nullptr;
  ASSERT_OK(store_.TryEndDoubt());
  EXPECT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_OK(store_.BeforeFrees(NodeId{3}));
  EXPECT_EQ(Kept(2), std::set<uint64_t>{old_span.offset});
  EXPECT_TRUE(Kept(3).empty());
}

// Fails if memory that has left the manifest is not free as soon as it is given back.
TEST_F(PlacedManifestStoreTest, CutsListsDownBeforeFrees) {
  const RemoteSpan old_span = New(2);
  const RemoteSpan new_span = New(3);
  ASSERT_OK(Put("m1", {old_span}));
  ASSERT_OK(Put("m2", {new_span}));
  EXPECT_EQ(Kept(2), std::set<uint64_t>{old_span.offset});
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_TRUE(Kept(2).empty());
  const int puts = nodes_[2].puts;
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_EQ(nodes_[2].puts, puts) << "there is nothing to tell";
}

// The same where a manifest without the table is taken while the list that names it yet is on its
// way: nobody else would cut that down, and the node would keep the memory.
TEST_F(PlacedManifestStoreTest, CutsListsDownThatManifestsHaveOvertaken) {
  const RemoteSpan first = New(2);
  const RemoteSpan second = New(2);
  const RemoteSpan third = New(2);
  ASSERT_OK(Put("m1", {first, second, third}));
  ASSERT_OK(Put("m2", {second, third}));
  nodes_[2].fate = [&] {
    std::thread other([&] { EXPECT_OK(Put("m3", {third})); });
    other.join();
    return Fate::kTaken;
  };
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));  // Of the first.
  nodes_[2].fate = nullptr;
  EXPECT_EQ(Kept(2), (std::set<uint64_t>{second.offset, third.offset}));
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));  // Of the second.
  EXPECT_EQ(Kept(2), std::set<uint64_t>{third.offset});
}

// The same of tables that no manifest has taken, because a node could not be told of its own.
TEST_F(PlacedManifestStoreTest, CutsListsDownThatNoManifestCameOf) {
  const RemoteSpan old_span = New(2);
  ASSERT_OK(Put("m1", {old_span}));
  nodes_[3].fate = [] { return Fate::kLost; };
  EXPECT_TRUE(Put("m2", {old_span, New(2), New(3)}).IsTimedOut());
  EXPECT_EQ(Kept(2).size(), 2u);
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_EQ(Kept(2), std::set<uint64_t>{old_span.offset});
}

// Fails if a node that does not answer keeps others' tables from being installed.
TEST_F(PlacedManifestStoreTest, WaitsOnlyForNodesThatGetTables) {
  const RemoteSpan at_two = New(2);
  ASSERT_OK(Put("m1", {at_two}));
  nodes_[2].fate = [] { return Fate::kLost; };
  EXPECT_TRUE(Put("m2", {at_two, New(2)}).IsTimedOut());
  const RemoteSpan at_three = New(3);
  EXPECT_OK(Put("m3", {at_two, at_three}));
  EXPECT_OK(Put("m4", {at_three}));
  EXPECT_TRUE(store_.BeforeFrees(NodeId{2}).IsTimedOut());
  EXPECT_OK(store_.BeforeFrees(NodeId{3}));
  nodes_[2].fate = nullptr;
  ASSERT_OK(store_.BeforeFrees(NodeId{2}));
  EXPECT_TRUE(Kept(2).empty());
}

// Fails if what a handle has left behind is taken for live, or a node that has lost its memory goes
// unnoticed.
TEST_F(PlacedManifestStoreTest, FindsWhatNobodyRefersTo) {
  PlacedManifestStore opened(&nodes_[1]);
  const RemoteSpan used = New(2);
  const RemoteSpan left = New(2);
  opened.AddNode(NodeId{2}, &nodes_[2], {used, left});
  EXPECT_OK(opened.CheckTold(used));
  EXPECT_EQ(opened.NoteLoaded({New(1), used}), std::vector<RemoteSpan>{left});
  PlacedManifestStore restarted(&nodes_[1]);
  restarted.AddNode(NodeId{2}, &nodes_[2], {});
  EXPECT_TRUE(restarted.CheckTold(used).IsIOError());
}

// Another may have become the owner at the home since the manifest was loaded, and have put one
// that names what seems to be nobody's. Fails if that leaves its list, or may be given back, before
// the home has taken a manifest of this handle.
TEST_F(PlacedManifestStoreTest, GivesNothingBackBeforeTheHomeHasTakenAManifest) {
  const RemoteSpan used = New(2);
  const RemoteSpan left = New(2);
  const std::set<uint64_t> both = {used.offset, left.offset};
  nodes_[2].kept = both;
  PlacedManifestStore opened(&nodes_[1]);
  opened.AddNode(NodeId{2}, &nodes_[2], {used, left});
  EXPECT_EQ(opened.NoteLoaded({used}), std::vector<RemoteSpan>{left});
  EXPECT_TRUE(opened.BeforeFrees(NodeId{2}).IsBusy());
  nodes_[1].fate = [] { return Fate::kLost; };
  EXPECT_TRUE(opened.Put("none of them", {}).IsTimedOut());
  EXPECT_TRUE(opened.BeforeFrees(NodeId{2}).IsBusy());
  EXPECT_EQ(Kept(2), both);
  nodes_[1].fate = nullptr;
  ASSERT_OK(opened.Put("m1", {used}));
  ASSERT_OK(opened.BeforeFrees(NodeId{2}));
  EXPECT_EQ(Kept(2), std::set<uint64_t>{used.offset});
}

// Any fate of any call, in random order with changes of the version, frees, and the handle's death.
// Fails if the manifest at the home ever refers to memory that others may have, or if memory is
// still kept when everything works again.
TEST_F(PlacedManifestStoreTest, NeverNamesMemoryThatIsFree) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::map<uint32_t, FakeNode> nodes = {{1, {}}, {2, {}}, {3, {}}};
    PlacedManifestStore store(&nodes[1]);
    for (const uint32_t node : {2u, 3u}) store.AddNode(NodeId{node}, &nodes[node], {});
    bool faults = true;
    for (auto& [number, node] : nodes) {
      node.fate = [&random, &faults] {
        if (!faults || !random.OneIn(3)) return Fate::kTaken;
        return random.OneIn(2) ? Fate::kLost : Fate::kAnswerLost;
      };
    }
    std::map<std::string, std::vector<RemoteSpan>> manifests;  // All that were ever put.
    std::vector<RemoteSpan> version;
    std::vector<RemoteSpan> to_free;
    uint64_t next_offset = 0;
    const auto check = [&] {
      for (const RemoteSpan& span : manifests[nodes[1].bytes]) {
        const FakeNode& node = nodes[static_cast<uint32_t>(span.node)];
        ASSERT_FALSE(node.IsFree(span.offset)) << span.offset;
        // What the next handle will start by holding.
        ASSERT_TRUE(node.kept.contains(span.offset)) << span.offset;
      }
    };
    const auto send_frees = [&] {
      store.EndDoubt().PermitUncheckedError();
      for (const uint32_t node : {1u, 2u, 3u}) {
        std::vector<RemoteSpan> gathered;
        for (const RemoteSpan& span : to_free) {
          if (span.node == NodeId{node}) gathered.push_back(span);
        }
        if (gathered.empty() || !store.BeforeFrees(NodeId{node}).ok()) continue;
        for (const RemoteSpan& span : gathered) nodes[node].Free(span.offset);
        std::erase_if(to_free, [node](const auto& span) { return span.node == NodeId{node}; });
      }
    };
    for (int step = 0; step < 60; ++step) {
      faults = step < 55;
      if (random.OneIn(3)) {
        send_frees();
      } else {
        std::vector<RemoteSpan> removed;
        std::vector<RemoteSpan> added;
        std::vector<RemoteSpan> next;
        for (const RemoteSpan& span : version) (random.OneIn(3) ? removed : next).push_back(span);
        for (uint64_t i = random.Uniform(3); i > 0; --i) {
          const auto node = static_cast<uint32_t>(1 + random.Uniform(3));
          nodes[node].held.insert(++next_offset);
          added.push_back(SpanAt(node, next_offset));
        }
        next.insert(next.end(), added.begin(), added.end());
        const std::string manifest = "m" + std::to_string(step);
        manifests[manifest] = next;
        const bool taken = store.Put(manifest, next).ok();
        if (taken) version = next;
        to_free.insert(to_free.end(), taken ? removed.begin() : added.begin(),
                       taken ? removed.end() : added.end());
      }
      ASSERT_NO_FATAL_FAILURE(check());
    }
    send_frees();
    ASSERT_TRUE(to_free.empty());
    for (const uint32_t node : {2u, 3u}) {
      std::set<uint64_t> live;
      for (const RemoteSpan& span : version) {
        if (span.node == NodeId{node}) live.insert(span.offset);
      }
      ASSERT_OK(store.BeforeFrees(NodeId{node}));
      ASSERT_EQ(nodes[node].kept, live);
      ASSERT_EQ(nodes[node].held, live);
    }
  }
}

}  // namespace
}  // namespace dlsm
