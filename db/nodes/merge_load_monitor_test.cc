#include "db/nodes/merge_load_monitor.h"

#include <gtest/gtest.h>

#include <thread>

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kLoadMegabyte = 1'000'000;

class MergeLoadMonitorTest : public testing::Test {
 protected:
  MergeLoadMonitorTest() {
    report_.workers = 1;
    report_.bytes_per_second = 100 * kLoadMegabyte;
    report_.bytes_waiting = 1000 * kLoadMegabyte;
  }
  // Flushes that went at 1000 MB a second.
  static void Flush(MergeLoadMonitor* monitor) {
    monitor->NoteTransfer(10 * kLoadMegabyte, milliseconds(10));
  }
  static std::string Field(const MergeLoadMonitor& monitor, const std::string& name) {
    const std::string text = "\n" + monitor.Describe();
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    if (at == std::string::npos) return "";
    const size_t value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  MergeScheduler scheduler_{MergeSchedulerOptions()};
  MergeLoad report_;
};

// Fails if a report is believed for ever.
TEST_F(MergeLoadMonitorTest, AnOldReportSaysNothing) {
  MergeLoadMonitor::Config config;
  config.report_lifetime = milliseconds(50);
  MergeLoadMonitor monitor(config, &scheduler_);
  Flush(&monitor);
  EXPECT_EQ(monitor.Place(kLoadMegabyte).reason, PlaceReason::kUnknown) << "there is no report";
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(monitor.Place(kLoadMegabyte).reason, PlaceReason::kUnknown);
  monitor.NoteReport(report_, 0);
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(monitor.Place(kLoadMegabyte).reason, PlaceReason::kUnknown);
  EXPECT_EQ(Field(monitor, "memory-node-known"), "0");
}

// Fails if between two reports everything is sent to a queue that was empty once, or if what a
// report knows already is added to it.
TEST_F(MergeLoadMonitorTest, WhatWasSentSinceTheReportIsAdded) {
  MergeLoadMonitor monitor(MergeLoadMonitor::Config(), &scheduler_);
  Flush(&monitor);
  report_.bytes_waiting = 0;
  monitor.NoteReport(report_, 0);
  int sent = 0;
  while (!monitor.Place(10 * kLoadMegabyte).local) ASSERT_LT(++sent, 100);
  EXPECT_GT(sent, 1);
  EXPECT_EQ(monitor.sent_bytes(), sent * 10 * kLoadMegabyte);
  EXPECT_EQ(Field(monitor, "memory-node-bytes-sent-since"), std::to_string(monitor.sent_bytes()));
  monitor.NoteReport(report_, monitor.sent_bytes());
  EXPECT_EQ(Field(monitor, "memory-node-bytes-sent-since"), "0");
  EXPECT_FALSE(monitor.Place(10 * kLoadMegabyte).local);
}

// Fails if a memory node that sends merges back gets the next one too, or never again one.
TEST_F(MergeLoadMonitorTest, ARefusalHoldsUntilTheNextReport) {
  MergeLoadMonitor monitor(MergeLoadMonitor::Config(), &scheduler_);
  ASSERT_FALSE(monitor.Place(kLoadMegabyte).local);
  monitor.NoteRefused(kLoadMegabyte);
  EXPECT_EQ(monitor.Place(kLoadMegabyte).reason, PlaceReason::kRefused);
  report_.bytes_waiting = 0;
  monitor.NoteReport(report_, monitor.sent_bytes());
  EXPECT_FALSE(monitor.Place(kLoadMegabyte).local);
}

// Fails if a merge that only has to wait for others times out, or if one is waited for for ever
// though nothing is merged any more.
TEST_F(MergeLoadMonitorTest, MergesAreWaitedForWhileThereIsProgress) {
  MergeLoadMonitor::Config config;
  config.patience = milliseconds(200);
  MergeLoadMonitor monitor(config, &scheduler_);
  const Deadline deadline = monitor.MergeDeadline();
  const auto first = deadline.time_point();
  monitor.NoteReport(report_, 0);
  EXPECT_EQ(deadline.time_point(), first) << "a report with none before it";
  for (int report = 0; report < 3; ++report) {
    std::this_thread::sleep_for(milliseconds(100));
    const auto before = MergeLoadMonitor::Clock::now();
    report_.bytes_merged += 1;
    monitor.NoteReport(report_, 0);
    EXPECT_GE(deadline.time_point(), before + config.patience);
  }
  const auto last = deadline.time_point();
  EXPECT_GT(last, first);
  monitor.NoteReport(report_, 0);
  EXPECT_EQ(deadline.time_point(), last) << "a report without progress";
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_TRUE(deadline.Passed());
}

// Fails if what runs here is not seen.
TEST_F(MergeLoadMonitorTest, SeesItsOwnMerges) {
  MergeLoadMonitor monitor(MergeLoadMonitor::Config(), &scheduler_);
  const std::atomic<bool> never{false};
  const MergeScheduler::Turn turn(&scheduler_, 12345, never);
  EXPECT_EQ(Field(monitor, "compute-node-merges-running"), "1");
  EXPECT_EQ(Field(monitor, "compute-node-bytes-left"), "12345");
  EXPECT_EQ(Field(monitor, "compute-node-threads"), "2");
  monitor.NoteReport(report_, 0);
  EXPECT_EQ(Field(monitor, "memory-node-bytes-waiting"), "1000000000");
}

// Fails if merges that nobody waits for are taken to be free where the processors of the memory
// node are wanted by others, or if a merge that runs there keeps the next one away.
TEST_F(MergeLoadMonitorTest, AProcessorIsSpareIfNobodyElseWantsIt) {
  MergeLoadMonitor monitor(MergeLoadMonitor::Config(), &scheduler_);
  EXPECT_TRUE(monitor.HasSpareProcessor(/*local=*/false)) << "nothing is known";
  const auto reports = [&](double idle, uint64_t running, uint64_t queued) {
    report_.cpu_idle = idle;
    report_.running = running;
    report_.queued = queued;
    monitor.NoteReport(report_, 0);
    return monitor.HasSpareProcessor(/*local=*/false);
  };
  EXPECT_TRUE(reports(0.5, 0, 0));
  EXPECT_TRUE(reports(0, 1, 0)) << "the merge has the other processor";
  EXPECT_TRUE(reports(0, 0, 1));
  EXPECT_FALSE(reports(0.2, 0, 0)) << "two threads that pause now and then";
  EXPECT_FALSE(reports(0.5, 1, 0));
  EXPECT_TRUE(reports(0.5, 0, 0));
}

// Fails if merges that follow each other without a pause go on for ever as if the processors were
// still as idle as they were before the first.
TEST_F(MergeLoadMonitorTest, WhatWasSpareLongAgoIsNot) {
  MergeLoadMonitor::Config config;
  config.report_lifetime = std::chrono::milliseconds(1);
  MergeLoadMonitor monitor(config, &scheduler_);
  report_.cpu_idle = 0.5;
  monitor.NoteReport(report_, 0);
  report_.running = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  monitor.NoteReport(report_, 0);
  EXPECT_FALSE(monitor.HasSpareProcessor(/*local=*/false));
  report_.running = 0;
  config.report_lifetime = std::chrono::hours(1);
  MergeLoadMonitor patient(config, &scheduler_);
  patient.NoteReport(report_, 0);
  EXPECT_TRUE(patient.HasSpareProcessor(/*local=*/false));
}

}  // namespace
}  // namespace dlsm
