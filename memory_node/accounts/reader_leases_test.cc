#include "memory_node/accounts/reader_leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kReaderLease{10};

class ReaderLeasesTest : public testing::Test {
 protected:
  static ByteRanges Range(uint64_t begin, uint64_t end) {
    ByteRanges ranges;
    ranges.Add({begin, end});
    return ranges;
  }
  uint64_t Open(uint64_t id, std::vector<ReaderLeases::Database> databases) {
    return leases_.Open(ReaderId{id}, "process " + std::to_string(id), std::move(databases), now_,
                        now_ + kReaderLease);
  }
  Status Renew(uint64_t id, uint64_t oldest, bool* must_move = nullptr) {
    bool ignored;
    return leases_.Renew(ReaderId{id}, oldest, now_, now_ + kReaderLease,
                         must_move == nullptr ? &ignored : must_move);
  }
  uint64_t Freed() {
    uint64_t bytes = 0;
    while (const std::optional<ReaderLeases::Unread> unread = leases_.FirstUnread()) {
      bytes += unread->range.end - unread->range.begin;
      leases_.NoteFreed(*unread);
    }
    return bytes;
  }
  void Pass(std::chrono::seconds time) {
    now_ += time;
    leases_.EndExpired(now_);
  }

  ReaderLeases::Clock::time_point now_{};
  ReaderLeases leases_;
  const ReaderLeases::Database db_ = std::make_shared<PublishedDatabase>();
  const ReaderLeases::Database other_ = std::make_shared<PublishedDatabase>();
};

// Fails if memory waits for nobody.
TEST_F(ReaderLeasesTest, WithoutReadersNothingIsKept) {
  leases_.UnnamedFrom(db_, 5);
  leases_.Retire(db_, Range(0, 64));
  EXPECT_EQ(Freed(), 64u);
  EXPECT_EQ(db_->whole_from, 5u);
  Open(1, {other_});
  leases_.Retire(db_, Range(0, 64));
  EXPECT_EQ(Freed(), 64u) << "that reader reads another database";
}

// Fails if a reader of several databases that there was no memory to note keeps what is retired.
TEST_F(ReaderLeasesTest, AReaderThatCannotBeNotedLeavesNothing) {
  leases_.UnnamedFrom(db_, 5);
  leases_.UnnamedFrom(other_, 5);
  Open(1, {db_});
  {
    const port::FailingAllocationsAt failing("reader leases", /*made=*/1);
    EXPECT_THROW(Open(2, {other_, db_}), std::bad_alloc);
  }
  EXPECT_EQ(leases_.count(), 1u);
  leases_.Retire(other_, Range(0, 64));
  EXPECT_EQ(Freed(), 64u) << "nobody reads that database";
  leases_.Retire(db_, Range(64, 128));
  EXPECT_EQ(Freed(), 0u) << "the first reader may read it";
  leases_.Close(ReaderId{1});
  EXPECT_EQ(Freed(), 64u);
}

// Fails if readers that come and go, each of which would keep what was retired before it came, keep
// others waiting for memory; or if one is told to begin where that is not needed.
TEST_F(ReaderLeasesTest, WhoComesWhileOthersWaitKeepsNothing) {
  leases_.UnnamedFrom(db_, 5);
  EXPECT_EQ(Open(1, {db_}), 0u);
  leases_.Retire(db_, Range(0, 64));
  leases_.UnnamedFrom(db_, 7);
  leases_.Retire(db_, Range(64, 128));
  EXPECT_EQ(Open(2, {db_}), 0u);
  leases_.Press(now_ + kReaderLease);
  EXPECT_EQ(Open(3, {other_}), 0u);
  EXPECT_EQ(Open(4, {other_, db_}), 7u);
  leases_.Close(ReaderId{1});
  leases_.Close(ReaderId{2});
  EXPECT_EQ(Freed(), 128u);
  leases_.Retire(db_, Range(0, 64));
  EXPECT_EQ(Freed(), 64u) << "it has begun with 7";
}

// Fails if memory is freed before the slowest reader has moved on, or not once it has.
TEST_F(ReaderLeasesTest, MemoryWaitsForTheSlowestReader) {
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  Open(2, {other_, db_});
  leases_.Retire(db_, Range(0, 64));
  leases_.UnnamedFrom(db_, 6);
  leases_.Retire(db_, Range(64, 192));
  EXPECT_EQ(Freed(), 0u);
  EXPECT_OK(Renew(1, 6));
  EXPECT_OK(Renew(2, 4));
  EXPECT_EQ(Freed(), 0u);
  EXPECT_OK(Renew(2, 5));
  EXPECT_EQ(Freed(), 64u);
  EXPECT_OK(Renew(2, 3));  // What was let go of cannot be taken up again.
  EXPECT_EQ(Freed(), 0u);
  EXPECT_EQ(leases_.AllRetired().bytes(), 128u);
  leases_.Close(ReaderId{2});
  EXPECT_EQ(Freed(), 128u);
  EXPECT_EQ(db_->whole_from, 6u);
}

// Fails if a silent reader keeps memory for ever, or loses its lease early.
TEST_F(ReaderLeasesTest, ASilentReaderKeepsItForItsLease) {
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  leases_.Retire(db_, Range(0, 64));
  Pass(kReaderLease - std::chrono::seconds(1));
  EXPECT_EQ(Freed(), 0u);
  EXPECT_OK(Renew(1, 4));
  Pass(kReaderLease - std::chrono::seconds(1));
  EXPECT_EQ(Freed(), 0u);
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(Freed(), 64u);
  EXPECT_TRUE(Renew(1, 5).IsAborted());
}

// Fails if what an owner leaves behind is freed under readers of its publications, or kept from
// then on though the next owner's publications do not name it.
TEST_F(ReaderLeasesTest, WhatAnOwnerLeavesWaitsForTheNextOne) {
  Open(1, {db_});
  leases_.UnnamedFrom(db_, 5);
  leases_.OwnerGone(db_);
  leases_.Retire(db_, Range(0, 64));
  EXPECT_OK(Renew(1, 1000));
  EXPECT_EQ(Freed(), 0u);
  leases_.UnnamedFrom(db_, 1001);
  EXPECT_OK(Renew(1, 1000));
  EXPECT_EQ(Freed(), 0u);
  EXPECT_OK(Renew(1, 1001));
  EXPECT_EQ(Freed(), 64u);
  EXPECT_EQ(db_->whole_from, 1001u);
}

// Fails if a new reader is let in on publications that name memory which has been freed.
TEST_F(ReaderLeasesTest, AfterAnOwnersEndNoPublicationIsWhole) {
  leases_.UnnamedFrom(db_, 5);
  leases_.OwnerGone(db_);
  EXPECT_EQ(db_->whole_from, 0u) << "nothing was freed";
  leases_.Retire(db_, Range(0, 64));
  EXPECT_EQ(Freed(), 64u);
  EXPECT_EQ(db_->whole_from, PublishedDatabase::kUnknown);
  leases_.UnnamedFrom(db_, 9);
  EXPECT_EQ(db_->whole_from, 9u);
}

// Fails if a reader keeps a full memory node full for ever, loses its lease without warning, or
// though it has moved.
TEST_F(ReaderLeasesTest, AFullNodeRenewsNoReaderThatStays) {
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  leases_.Retire(db_, Range(0, 64));
  bool must_move = true;
  EXPECT_OK(Renew(1, 3, &must_move));
  EXPECT_FALSE(must_move);
  leases_.Press(now_ + kReaderLease);
  EXPECT_OK(Renew(1, 3, &must_move));
  EXPECT_TRUE(must_move);
  EXPECT_OK(Renew(1, 4, &must_move));  // It has moved.
  EXPECT_TRUE(must_move);
  EXPECT_OK(Renew(1, 4, &must_move));
  EXPECT_TRUE(must_move);
  Pass(kReaderLease / 2);
  const Status refused = Renew(1, 4);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_THAT(refused.ToString(), HasSubstr("full"));
  EXPECT_TRUE(Renew(1, 5).IsBusy());
  EXPECT_EQ(Freed(), 0u) << "its lease has not ended";
  Pass(kReaderLease);
  EXPECT_EQ(Freed(), 64u);
}

// Fails if a reader that is told to move is refused before it has had the time to, or goes on for
// longer than others may be made to wait for it.
TEST_F(ReaderLeasesTest, WhoIsToldToMoveHasAQuarterOfItsLease) {
  constexpr std::chrono::nanoseconds kAMoment{1};
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  leases_.Retire(db_, Range(0, 64));
  leases_.Press(now_ + kReaderLease);
  bool must_move = false;
  EXPECT_OK(Renew(1, 4, &must_move));
  EXPECT_TRUE(must_move);
  now_ += std::chrono::nanoseconds(kReaderLease) / 4 - kAMoment;
  EXPECT_OK(Renew(1, 4, &must_move));
  EXPECT_TRUE(must_move);
  now_ += kAMoment;
  EXPECT_TRUE(Renew(1, 4).IsBusy());
}

// Fails if a reader is told to move where it keeps nothing that others could use.
TEST_F(ReaderLeasesTest, AReaderThatKeepsNothingIsNotPressed) {
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  Open(2, {db_});
  leases_.Retire(db_, Range(0, 64));
  leases_.Press(now_ + kReaderLease);
  bool must_move = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(Renew(1, 5, &must_move));
    EXPECT_FALSE(must_move);
  }
}

// Fails if a reader that was told to move when the memory node stood still is refused after that,
// before it could hear of it; or if it is not refused in the end.
TEST_F(ReaderLeasesTest, WhatTheMemoryNodeStandsStillForCountsForNothing) {
  leases_.UnnamedFrom(db_, 5);
  Open(1, {db_});
  leases_.Retire(db_, Range(0, 64));
  leases_.Press(now_ + 10 * kReaderLease);
  bool must_move = false;
  EXPECT_OK(Renew(1, 4, &must_move));
  EXPECT_TRUE(must_move);
  leases_.MoveOn(2 * kReaderLease);
  Pass(2 * kReaderLease);
  EXPECT_OK(Renew(1, 4));
  EXPECT_EQ(Freed(), 0u);
  Pass(kReaderLease / 2);
  EXPECT_TRUE(Renew(1, 4).IsBusy());
}

// Fails if readers of a destroyed database go on, perhaps with one that was made in its place.
TEST_F(ReaderLeasesTest, ADestroyedDatabaseHasNoReaders) {
  Open(1, {db_});
  leases_.OwnerGone(db_);
  db_->destroyed = true;
  leases_.Retire(db_, Range(0, 64));
  const Status renewed = Renew(1, 1);
  EXPECT_TRUE(renewed.IsIOError());
  EXPECT_THAT(renewed.ToString(), HasSubstr("destroyed"));
  EXPECT_EQ(Freed(), 0u);
  Pass(kReaderLease);
  EXPECT_EQ(Freed(), 64u);
}

// An iterator of a follower stays while the owner publishes and frees, hundreds of thousands of
// times. Fails if each call looks at all that has been retired since: then it takes minutes.
TEST_F(ReaderLeasesTest, AReaderThatStaysMakesNothingSlow) {
  constexpr uint64_t kPublications = 200'000;
  Open(1, {db_, other_});
  Open(2, {db_});
  const auto start = std::chrono::steady_clock::now();
  leases_.UnnamedFrom(other_, 1);
  for (uint64_t number = 1; number <= kPublications; ++number) {
    leases_.UnnamedFrom(db_, number);
    leases_.Retire(db_, Range(number * 128, number * 128 + 64));
    ASSERT_OK(Renew(2, number));
    ASSERT_EQ(Freed(), 0u);
  }
  leases_.Press(now_ + kReaderLease);
  for (uint64_t i = 1; i <= 1000; ++i) {
    const uint64_t offset = (kPublications + i) * 128;
    leases_.Retire(other_, Range(offset, offset + 64));
    ASSERT_EQ(Freed(), 0u);
    ASSERT_OK(Renew(1, 0));
    leases_.Close(ReaderId{3});
    ASSERT_EQ(Open(3, {db_}), kPublications);
    ASSERT_EQ(leases_.retired_bytes(), (kPublications + i) * 64);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  leases_.Close(ReaderId{1});
  EXPECT_EQ(Freed(), (kPublications + 1000) * 64);
  EXPECT_EQ(leases_.retired_bytes(), 0u);
}

// Random owners and readers beside a model of who may still read what. Fails if any byte is freed
// that a reader may read, or any is kept that none may.
TEST_F(ReaderLeasesTest, FreesWhatNobodyReadsAndNothingElse) {
  Random random(7);
  std::vector<uint64_t> model;  // Of each 64 bytes that are kept: from where on they are unnamed.
  std::map<uint64_t, uint64_t> oldest;
  uint64_t publication = 1;
  uint64_t next_reader = 1;
  uint64_t next_offset = 0;
  for (int step = 0; step < 20000; ++step) {
    switch (random.Uniform(5)) {
      case 0:
        leases_.UnnamedFrom(db_, ++publication);
        break;
      case 1:
        if (oldest.size() < 5) {
          Open(next_reader, {db_});
          oldest[next_reader++] = 0;
        }
        break;
      case 2:
        leases_.UnnamedFrom(db_, publication);
        leases_.Retire(db_, Range(next_offset, next_offset + 64));
        model.push_back(publication);
        next_offset += 128;
        break;
      case 3:
        for (auto& [reader, at] : oldest) {
          if (random.Uniform(3) != 0) continue;
          at = std::max(at, publication - random.Uniform(3) % publication);
          ASSERT_OK(Renew(reader, at));
        }
        break;
      default:
        if (!oldest.empty() && random.Uniform(10) == 0) {
          leases_.Close(ReaderId{oldest.begin()->first});
          oldest.erase(oldest.begin());
        }
    }
    uint64_t expected = 0;
    std::erase_if(model, [&](uint64_t unnamed_from) {
      for (const auto& [reader, at] : oldest) {
        if (at < unnamed_from) return false;
      }
      expected += 64;
      return true;
    });
    ASSERT_EQ(Freed(), expected) << step;
  }
}

}  // namespace
}  // namespace dlsm
