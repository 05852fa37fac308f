#include "db/background/stall_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/manual_clock_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Long enough that only a hang takes as long.
constexpr auto kHangTime = milliseconds(60000);

// Fails if an open gate stops anybody or counts a stall.
TEST(StallGateTest, OpenGateLetsEverybodyPass) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  EXPECT_OK(gate.Pass(false, 100));
  EXPECT_OK(gate.Pass(true, 100));
  EXPECT_FALSE(gate.closed());
  EXPECT_EQ(statistics.Get(Ticker::kStalls), 0u);
}

// Fails if a write waits beyond its deadline, at a gate that is closed or to keep the pace, or if
// one that has time is refused for it.
TEST(StallGateTest, WritesHaveDeadlines) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  EXPECT_OK(gate.Pass(false, 100, /*may_wait=*/true, Clock::now() - milliseconds(1)));
  gate.Set(StallReason::kMemtables, true);
  EXPECT_TRUE(
      gate.Pass(false, 100, /*may_wait=*/true, Clock::now() + milliseconds(5)).IsTimedOut());
  size_t refused_by = 7;
  const StallGate::Share share{&gate, false, 100};
  EXPECT_TRUE(StallGate::PassAll({&share, 1}, /*may_wait=*/true, &refused_by,
                                 Clock::now() + milliseconds(5))
                  .IsTimedOut());
  EXPECT_EQ(refused_by, 0u);
  gate.Set(StallReason::kMemtables, false);
  gate.SetPace(1000);
  EXPECT_OK(gate.Pass(false, 100000));
  EXPECT_TRUE(
      gate.Pass(false, 100, /*may_wait=*/true, Clock::now() + milliseconds(5)).IsTimedOut());
}

// Fails if one reason's end opens a gate that another keeps closed.
TEST(StallGateTest, IsClosedAsLongAsAnyReasonIs) {
  Statistics statistics;
  StallGate gate(milliseconds(10), &statistics);
  gate.Set(StallReason::kMemtables, true);
  gate.Set(StallReason::kLevel0, true);
  gate.Set(StallReason::kMemtables, false);
  EXPECT_TRUE(gate.closed());
  EXPECT_TRUE(gate.closed(StallReason::kLevel0));
  EXPECT_FALSE(gate.closed(StallReason::kMemtables));
  EXPECT_TRUE(gate.Pass(false, 100).IsBusy());
  gate.Set(StallReason::kLevel0, false);
  EXPECT_OK(gate.Pass(false, 100));
}

// Fails if those who wait are not woken, or the wait is not counted and timed under its reason.
TEST(StallGateTest, WakesWhoWaits) {
  const struct {
    StallReason reason;
    Ticker ticker;
  } cases[] = {{StallReason::kMemtables, Ticker::kStallMicrosMemtables},
               {StallReason::kLevel0, Ticker::kStallMicrosLevel0},
               {StallReason::kComponents, Ticker::kStallMicrosComponents},
               {StallReason::kMemory, Ticker::kStallMicrosMemory}};
  for (const auto& test : cases) {
    Statistics statistics;
    StallGate gate(kHangTime, &statistics);
    gate.Set(test.reason, true);
    std::vector<std::thread> writers;
    for (int i = 0; i < 3; ++i) {
      writers.emplace_back([&gate] { EXPECT_OK(gate.Pass(false, 100)); });
    }
    std::this_thread::sleep_for(milliseconds(20));
    gate.Set(test.reason, false);
    for (std::thread& writer : writers) writer.join();
    if (statistics.Get(Ticker::kStalls) == 0) continue;  // No writer came in time to wait.
    EXPECT_GT(statistics.Get(test.ticker), 0u);
    EXPECT_LE(statistics.Get(Ticker::kStalls), 3u);
    const StallTotal total = gate.totals()[static_cast<size_t>(test.reason)];
    EXPECT_EQ(total.count, statistics.Get(Ticker::kStalls));
    EXPECT_EQ(total.micros, statistics.Get(test.ticker));
    EXPECT_GE(total.longest_micros * total.count, total.micros);
    EXPECT_LE(total.longest_micros, total.micros);
  }
}

// Fails if deletions, which make room, wait for room; or pass when they would make things worse.
TEST(StallGateTest, DeletionsPassAFullMemoryNode) {
  Statistics statistics;
  StallGate gate(milliseconds(10), &statistics);
  gate.Set(StallReason::kMemory, true);
  EXPECT_OK(gate.Pass(true, 100));
  EXPECT_TRUE(gate.Pass(false, 100).IsBusy());
  gate.Set(StallReason::kMemtables, true);
  EXPECT_TRUE(gate.Pass(true, 100).IsBusy());
}

// Fails if a writer gives up though flushes get on, or never gives up though they do not.
TEST(StallGateTest, ProgressExtendsPatience) {
  Statistics statistics;
  const auto timeout = milliseconds(1000);
  StallGate gate(timeout, &statistics);
  gate.Set(StallReason::kMemtables, true);
  const auto start = Clock::now();
  std::thread flusher([&gate] {
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(milliseconds(200));
      gate.NoteProgress();
    }
  });
  const Status status = gate.Pass(false, 100);
  const auto waited = Clock::now() - start;
  flusher.join();
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_GE(waited, 6 * milliseconds(200) + timeout - milliseconds(20));
  EXPECT_LT(waited, std::chrono::seconds(20));
}

// Fails if the message does not say why: the reason, and the error behind it.
TEST(StallGateTest, NamesTheCause) {
  const struct {
    StallReason reason;
    const char* text;
  } cases[] = {{StallReason::kMemtables, "flush"},
               {StallReason::kLevel0, "level 0"},
               {StallReason::kComponents, "sorted runs"},
               {StallReason::kMemory, "room"}};
  for (const auto& test : cases) {
    Statistics statistics;
    StallGate gate(milliseconds(1), &statistics);
    gate.Set(test.reason, true);
    Status status = gate.Pass(false, 100);
    EXPECT_TRUE(status.IsBusy());
    EXPECT_NE(status.ToString().find(test.text), std::string::npos) << status.ToString();
    gate.NoteError(Status::IOError("cable cut"));
    status = gate.Pass(false, 100);
    EXPECT_TRUE(status.IsIOError());
    EXPECT_NE(status.ToString().find("cable cut"), std::string::npos) << status.ToString();
  }
}

// Fails if writers are told to try again what cannot succeed until somebody mends it, or take for
// lasting what passes.
TEST(StallGateTest, LastingErrorsArePassedOnAsSuch) {
  Statistics statistics;
  StallGate gate(milliseconds(1), &statistics);
  gate.Set(StallReason::kMemtables, true);
  for (const Status& error :
       {Status::Corruption("a table is damaged"),
        Status::InvalidArgument("not this one's database"),
        Status::NotSupported("not by this memory node"), Status::IOError("cable cut")}) {
    gate.NoteError(error);
    const Status status = gate.Pass(false, 100);
    EXPECT_EQ(status.code(), error.code()) << status.ToString();
    EXPECT_NE(status.ToString().find(error.message().ToString()), std::string::npos);
  }
  for (const Status& error :
       {Status::Busy("full"), Status::TimedOut("late"), Status::Aborted("cancelled")}) {
    gate.NoteError(error);
    EXPECT_TRUE(gate.Pass(false, 100).IsBusy()) << error.ToString();
  }
}

// Fails if an error that has long been overcome is still given as the cause of a later stall.
TEST(StallGateTest, ForgetsAnErrorThatIsOvercome) {
  Statistics statistics;
  StallGate gate(milliseconds(1), &statistics);
  gate.NoteError(Status::IOError("cable cut"));
  gate.NoteProgress();
  gate.Set(StallReason::kLevel0, true);
  const Status status = gate.Pass(false, 100);
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_EQ(status.ToString().find("cable cut"), std::string::npos) << status.ToString();
}

// Fails if a closing database leaves writers waiting, or lets new ones in.
TEST(StallGateTest, ShutSendsEverybodyAway) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  gate.Set(StallReason::kMemtables, true);
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&gate] { EXPECT_TRUE(gate.Pass(false, 100).IsAborted()); });
  }
  std::this_thread::sleep_for(milliseconds(20));
  gate.Shut();
  for (std::thread& writer : writers) writer.join();
  gate.Set(StallReason::kMemtables, false);
  EXPECT_TRUE(gate.Pass(false, 100).IsAborted());
  EXPECT_TRUE(gate.Pass(true, 100).IsAborted());
}

// Fails if slowed writers are stopped, go faster than their pace together, or are not counted.
TEST(StallGateTest, SlowedWritersKeepPaceTogether) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  gate.SetPace(10e6);
  EXPECT_FALSE(gate.closed());
  const auto start = Clock::now();
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&gate] {
      for (int n = 0; n < 500; ++n) EXPECT_OK(gate.Pass(n % 2 == 0, 1000));
    });
  }
  for (std::thread& writer : writers) writer.join();
  // A million bytes; the last writes need not wait for their own.
  EXPECT_GE(Clock::now() - start, milliseconds(95));
  const StallTotal total = gate.totals()[static_cast<size_t>(StallReason::kSlowed)];
  EXPECT_GT(total.count, 0u);
  EXPECT_EQ(total.micros, statistics.Get(Ticker::kStallMicrosSlowed));
  gate.SetPace(0);
  EXPECT_OK(gate.Pass(false, uint64_t{1} << 40));
  EXPECT_OK(gate.Pass(false, 1));
}

// Fails if a slowed writer keeps a database from closing.
TEST(StallGateTest, ShutEndsSlowWrites) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  gate.SetPace(1);
  EXPECT_OK(gate.Pass(false, 1000));
  std::thread writer([&gate] {
    for (int n = 0; gate.Pass(false, 1000).ok(); ++n) ASSERT_LT(n, 600);
  });
  std::this_thread::sleep_for(milliseconds(20));
  gate.Shut();
  writer.join();
}

// What a batch writes to each of these gates.
std::vector<StallGate::Share> SharesOf(const std::vector<std::unique_ptr<StallGate>>& gates) {
  std::vector<StallGate::Share> shares;
  shares.reserve(gates.size());
  for (const auto& gate : gates) shares.push_back({gate.get(), false, 100});
  return shares;
}

// A batch over many shards, each of which is slowed down. Fails if it sleeps once for each of them,
// or what it writes is not counted on all of them.
TEST(StallGateTest, ABatchSleepsOnce) {
  Statistics statistics;
  std::vector<std::unique_ptr<StallGate>> gates;
  for (int i = 0; i < 16; ++i) {
    gates.push_back(std::make_unique<StallGate>(kHangTime, &statistics));
    gates.back()->SetPace(100);
  }
  const std::vector<StallGate::Share> shares = SharesOf(gates);
  size_t refused_by = 0;
  EXPECT_OK(
      StallGate::PassAll(shares, /*may_wait=*/true, &refused_by));  // Each of them owes a second.
  EXPECT_EQ(statistics.Get(Ticker::kStalls), 0u);
  const auto start = Clock::now();
  EXPECT_OK(StallGate::PassAll(shares, /*may_wait=*/true, &refused_by));
  EXPECT_LT(Clock::now() - start, milliseconds(1000)) << "a tenth of a second for each";
  EXPECT_GT(Clock::now() - start, milliseconds(50));
  EXPECT_EQ(statistics.Get(Ticker::kStalls), 1u);
  for (const size_t gate : {size_t{0}, size_t{15}}) {
    const auto before = Clock::now();
    EXPECT_OK(gates[gate]->Pass(false, 1));
    EXPECT_GT(Clock::now() - before, milliseconds(50)) << "the batch owes it";
  }
}

// Fails if a batch passes a gate that has closed while another one was waited for.
TEST(StallGateTest, ABatchLooksAgainAtGatesThatWereOpen) {
  Statistics statistics;
  std::vector<std::unique_ptr<StallGate>> gates;
  for (int i = 0; i < 3; ++i) gates.push_back(std::make_unique<StallGate>(kHangTime, &statistics));
  gates[2]->Set(StallReason::kMemtables, true);
  std::atomic<bool> passed{false};
  std::thread writer([&] {
    size_t refused_by = 0;
    EXPECT_OK(StallGate::PassAll(SharesOf(gates), /*may_wait=*/true, &refused_by));
    passed = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  gates[0]->Set(StallReason::kLevel0, true);
  gates[2]->Set(StallReason::kMemtables, false);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(passed);
  gates[0]->Set(StallReason::kLevel0, false);
  writer.join();
}

// Fails if an error is given as that of another gate, or one of many refuses in vain.
TEST(StallGateTest, ABatchIsToldWhoRefusesIt) {
  Statistics statistics;
  std::vector<std::unique_ptr<StallGate>> gates;
  for (int i = 0; i < 3; ++i) {
    gates.push_back(std::make_unique<StallGate>(milliseconds(10), &statistics));
    gates.back()->SetPace(1e9);
  }
  size_t refused_by = 0;
  gates[1]->Set(StallReason::kLevel0, true);
  EXPECT_TRUE(StallGate::PassAll(SharesOf(gates), /*may_wait=*/true, &refused_by).IsBusy());
  EXPECT_EQ(refused_by, 1u);
  gates[1]->Set(StallReason::kLevel0, false);
  gates[2]->Refuse(Status::IOError("gone"));
  EXPECT_TRUE(StallGate::PassAll(SharesOf(gates), /*may_wait=*/true, &refused_by).IsIOError());
  EXPECT_EQ(refused_by, 2u);
}

// Fails if who may not wait does so, at a closed gate or to keep the pace; or is refused where
// nobody has to wait; or hears of a stall what should be told him of an end.
TEST(StallGateTest, WhoMayNotWaitIsRefusedAtOnce) {
  constexpr bool kMayWait = false;
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  gate.Set(StallReason::kMemory, true);
  const Status refused = gate.Pass(false, 100, kMayWait);
  EXPECT_TRUE(refused.IsBusy());
  EXPECT_NE(refused.ToString().find("no_slowdown"), std::string::npos) << refused.ToString();
  EXPECT_NE(refused.ToString().find("stall: memory"), std::string::npos) << refused.ToString();
  EXPECT_OK(gate.Pass(/*only_deletes=*/true, 100, kMayWait));
  gate.Set(StallReason::kMemory, false);
  gate.SetPace(100);
  Status slowed;
  for (int n = 0; slowed.ok() && n < 100; ++n) slowed = gate.Pass(false, 100, kMayWait);
  EXPECT_TRUE(slowed.IsBusy()) << "each of them owes a second";
  EXPECT_NE(slowed.ToString().find("stall: slowed"), std::string::npos) << slowed.ToString();
  gate.SetPace(0);
  EXPECT_OK(gate.Pass(false, 100, kMayWait));
  EXPECT_EQ(statistics.Get(Ticker::kWritesNotWaiting), 2u);
  EXPECT_EQ(statistics.Get(Ticker::kStalls), 0u);
  gate.Refuse(Status::IOError("gone"));
  EXPECT_TRUE(gate.Pass(false, 100, kMayWait).IsIOError());
}

// Fails if who comes again and again, without waiting, looks like nobody; or does so for ever.
TEST(StallGateTest, WhoIsRefusedCountsAsWaitingForAMoment) {
  port::ManualClock clock;
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  EXPECT_FALSE(gate.somebody_waits());
  gate.Set(StallReason::kMemtables, true);
  EXPECT_TRUE(gate.Pass(false, 100, /*may_wait=*/false).IsBusy());
  EXPECT_TRUE(gate.somebody_waits());
  clock.Advance(milliseconds(99));
  EXPECT_TRUE(gate.somebody_waits());
  clock.Advance(milliseconds(2));
  EXPECT_FALSE(gate.somebody_waits());
}

// Fails if a batch that is refused has used up the pace of another shard.
TEST(StallGateTest, ABatchThatMayNotWaitTakesNothingWhereItIsRefused) {
  Statistics statistics;
  std::vector<std::unique_ptr<StallGate>> gates;
  for (int i = 0; i < 3; ++i) {
    gates.push_back(std::make_unique<StallGate>(kHangTime, &statistics));
    gates.back()->SetPace(100);
  }
  gates[2]->Set(StallReason::kLevel0, true);
  size_t refused_by = 0;
  EXPECT_TRUE(StallGate::PassAll(SharesOf(gates), /*may_wait=*/false, &refused_by).IsBusy());
  EXPECT_EQ(refused_by, 2u);
  gates[2]->Set(StallReason::kLevel0, false);
  EXPECT_OK(StallGate::PassAll(SharesOf(gates), /*may_wait=*/false, &refused_by));
  Status slowed;
  for (int n = 0; slowed.ok() && n < 100; ++n) {
    slowed = StallGate::PassAll(SharesOf(gates), /*may_wait=*/false, &refused_by);
  }
  EXPECT_TRUE(slowed.IsBusy()) << "all of them owe a second";
  EXPECT_EQ(refused_by, 0u);
}

// Writers run through a gate that opens and closes all the time; none may be left behind.
TEST(StallGateTest, NobodyIsLeftBehind) {
  Statistics statistics;
  StallGate gate(kHangTime, &statistics);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) EXPECT_OK(gate.Pass(n % 2 == 0, 100));
    });
  }
  std::thread closer([&] {
    for (int n = 0; !stop.load(); ++n) {
      gate.Set(static_cast<StallReason>(n / 2 % 4), n % 2 == 0);
      gate.SetPace(n % 5 == 0 ? 1e9 : 0);
      gate.NoteProgress();
      if (n % 64 == 0) std::this_thread::yield();
    }
    for (size_t reason = 0; reason < kStallReasonCount; ++reason) {
      gate.Set(static_cast<StallReason>(reason), false);
    }
    gate.SetPace(0);
  });
  for (size_t i = 0; i < threads.size(); ++i) {
    if (i + 1 == threads.size()) stop = true;  // The last one may have to be let through.
    threads[i].join();
  }
  closer.join();
}

}  // namespace
}  // namespace dlsm
