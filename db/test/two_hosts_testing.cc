#include "db/test/two_hosts_testing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kHostValueBytes = 400;
constexpr auto kPauseAfterError = milliseconds(20);

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): constant.
  return value == nullptr ? "" : value;
}

milliseconds Since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

void Shell(const std::string& command) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): of one thread.
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace

// -------- The other host, and the link

std::string OtherHost::WhyNot() {
  return Address().empty() ? "there is no other host (script/softroce/two-hosts-test has one)" : "";
}

std::string OtherHost::Address() { return Environment("DLSM_TWO_HOSTS_NODE"); }

std::string OtherHost::Order(const std::string& order) {
  const std::string folder = Environment("DLSM_TWO_HOSTS_ORDERS");
  // The answers to earlier orders are still there, so this name is a new one.
  const std::filesystem::directory_iterator files(folder);
  const std::string file = fmt::format("{}/{}", folder, std::distance(begin(files), end(files)));
  {
    std::ofstream out(file + ".new");
    out << order << '\n';
  }
  std::filesystem::rename(file + ".new", file + ".order");
  const auto give_up = Clock::now() + seconds(60);
  while (!std::filesystem::exists(file + ".done")) {
    if (Clock::now() > give_up) {
      ADD_FAILURE() << "the other host does not carry out: " << order;
      return "";
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  std::ifstream in(file + ".done");
  std::stringstream answer;
  answer << in.rdbuf();
  EXPECT_EQ(answer.str().find("failed"), std::string::npos) << order << ": " << answer.str();
  return answer.str();
}

void Link::Down() {
  Shell("ip link set \"$SOFTROCE_NETDEV\" down");
  down_ = true;
}

void Link::Silence() {
  Shell("tc qdisc add dev \"$SOFTROCE_NETDEV\" root netem loss 100%");
  silent_ = true;
}

void Link::DelayUpTo(milliseconds most) {
  Shell(fmt::format("tc qdisc add dev \"$SOFTROCE_NETDEV\" root netem limit 100000 delay {}ms {}ms",
                    most.count() / 2, most.count() / 2));
  delay_ = most;
}

void Link::Heal() {
  if (delay_ > milliseconds(0)) {
    // What is on its way arrives; taking the delay away at once would lose it.
    Shell("tc qdisc change dev \"$SOFTROCE_NETDEV\" root netem limit 100000 delay 0ms");
    std::this_thread::sleep_for(delay_);
    Shell("tc qdisc del dev \"$SOFTROCE_NETDEV\" root");
    delay_ = milliseconds(0);
  }
  if (silent_) Shell("tc qdisc del dev \"$SOFTROCE_NETDEV\" root");
  if (down_) Shell("ip link set \"$SOFTROCE_NETDEV\" up");
  silent_ = down_ = false;
}

int Link::QueuePairs() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen("rdma resource show qp | grep -c 'type RC'", "r"), ::pclose);
  int count = -1;
  EXPECT_EQ(std::fscanf(pipe.get(), "%d", &count), 1);
  return count;
}

// -------- The model

std::string AcknowledgedModel::Key(uint32_t number) { return fmt::format("key{:010}", number); }

std::string AcknowledgedModel::Value(uint32_t number, uint32_t round) {
  std::string value = fmt::format("{}/{}/", number, round);
  Random random((uint64_t{number} << 32) | round);
  return value + random.Bytes(kHostValueBytes - value.size());
}

Status AcknowledgedModel::Put(DB* db, uint32_t number) {
  Rounds& rounds = rounds_[number];
  // Readers look at it after their read, so it is stored before the write can be seen.
  const uint32_t round = rounds.attempted.fetch_add(1) + 1;
  const Status status = db->Put(WriteOptions(), Key(number), Value(number, round));
  if (status.ok()) rounds.acknowledged.store(round);
  return status;
}

void AcknowledgedModel::NoteFlushed() {
  for (Rounds& rounds : rounds_) rounds.flushed = rounds.acknowledged;
}

void AcknowledgedModel::ForgetUnflushed() {
  for (Rounds& rounds : rounds_) rounds.acknowledged = rounds.flushed;
}

void AcknowledgedModel::ForgetAll() {
  for (Rounds& rounds : rounds_) {
    rounds.acknowledged = rounds.flushed = 0;
    rounds.attempted = 0;
  }
}

void AcknowledgedModel::Check(uint32_t number, uint32_t least, const std::string& value) const {
  uint32_t says_number = 0, round = 0;
  ASSERT_EQ(std::sscanf(value.c_str(), "%u/%u/", &says_number, &round), 2) << Key(number);
  EXPECT_EQ(says_number, number);
  EXPECT_GE(round, least) << "an older value than was acknowledged, of " << Key(number);
  EXPECT_LE(round, rounds_[number].attempted.load()) << Key(number);
  EXPECT_TRUE(value == Value(number, round)) << "garbage in the value of " << Key(number);
}

Status AcknowledgedModel::Get(DB* db, uint32_t number) const {
  const uint32_t least = rounds_[number].acknowledged.load();
  std::string value;
  Status status = db->Get(ReadOptions(), Key(number), &value);
  if (status.IsNotFound()) {
    EXPECT_EQ(least, 0u) << Key(number) << " was acknowledged and is gone";
    return Status::OK();
  }
  if (status.ok()) Check(number, least, value);
  return status;
}

Status AcknowledgedModel::Scan(DB* db) const {
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  for (uint32_t number = 0; number < kKeys && !testing::Test::HasFailure(); ++number) {
    if (iterator->Valid() && iterator->key() == Slice(Key(number))) {
      Check(number, rounds_[number].acknowledged, iterator->value().ToString());
      iterator->Next();
    } else if (rounds_[number].acknowledged > 0) {
      EXPECT_FALSE(iterator->status().ok()) << Key(number) << " is not in a scan";
      return iterator->status();
    }
  }
  if (iterator->Valid() && !testing::Test::HasFailure()) {
    ADD_FAILURE() << "nobody wrote " << iterator->key().ToString();
  }
  return iterator->status();
}

void AcknowledgedModel::ExpectAll(DB* db) const {
  constexpr int kTries = 5;
  const auto patiently = [](const auto& call) {
    Status status;
    for (int i = 0; i < kTries; ++i) {
      status = call();
      if (status.ok() || testing::Test::HasFailure()) break;
      std::this_thread::sleep_for(seconds(1));
    }
    return status;
  };
  ASSERT_OK(patiently([&] { return Scan(db); }));
  for (uint32_t number = 0; number < kKeys; number += 7) {
    ASSERT_OK(patiently([&] { return Get(db, number); }));
    if (testing::Test::HasFailure()) return;
  }
}

// -------- Times

Status CallTimes::Time(const std::string& name, seconds most,
                       const std::function<Status()>& function) {
  const auto start = Clock::now();
  Status status = function();
  const milliseconds took = Since(start);
  EXPECT_LE(took.count(), milliseconds(most).count()) << name << ": " << status.ToString();
  const port::MutexLock lock(mutex_);
  Call& call = by_name_[name];
  ++call.count;
  call.longest = std::max(call.longest, took);
  if (!status.ok()) {
    ++call.errors;
    call.longest_error = std::max(call.longest_error, took);
    ++call.messages[status.ToString()];
  }
  return status;
}

uint64_t CallTimes::errors() const {
  const port::MutexLock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [name, call] : by_name_) sum += call.errors;
  return sum;
}

void CallTimes::Clear() {
  const port::MutexLock lock(mutex_);
  by_name_.clear();
}

void CallTimes::ExpectHelpfulErrors() const {
  const port::MutexLock lock(mutex_);
  for (const auto& [name, call] : by_name_) {
    for (const auto& [message, count] : call.messages) {
      EXPECT_NE(message.find("memory node"), std::string::npos) << name << ": " << message;
      // What can be done stands behind a semicolon, or is asked.
      EXPECT_NE(message.find_first_of("?;"), std::string::npos) << name << ": " << message;
    }
  }
}

void CallTimes::Print(const std::string& title) const {
  const port::MutexLock lock(mutex_);
  for (const auto& [name, call] : by_name_) {
    fmt::print("{}: {}: {} calls, longest {} ms; {} errors, longest {} ms\n", title, name,
               call.count, call.longest.count(), call.errors, call.longest_error.count());
    for (const auto& [message, count] : call.messages) fmt::print("    {} x {}\n", count, message);
  }
  std::fflush(stdout);
}

// -------- Threads

const char* LoadName(Load load) {
  switch (load) {
    case Load::kFill:
      return "Fill";
    case Load::kRead:
      return "Read";
    case Load::kMergeThere:
      return "MergeThere";
    case Load::kMergeHere:
      return "MergeHere";
  }
  return "";
}

BusyThreads::BusyThreads(Load load, DB* db, AcknowledgedModel* model, CallTimes* times)
    : load_(load), db_(db), model_(model), times_(times) {
  switch (load) {
    case Load::kFill:
      threads_.emplace_back([this] { Fill(); });
      break;
    case Load::kRead:
      for (uint32_t seed = 1; seed <= 2; ++seed)
        threads_.emplace_back([this, seed] { Read(seed); });
      break;
    case Load::kMergeThere:
    case Load::kMergeHere:
      threads_.emplace_back([this] { Merge(); });
      break;
  }
}

void BusyThreads::AwaitMiddle() {
  const bool merges = load_ == Load::kMergeThere || load_ == Load::kMergeHere;
  const uint64_t enough = merges ? 1 : 2000;
  const auto give_up = Clock::now() + seconds(60);
  while (done_ < enough && Clock::now() < give_up) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(done_.load(), enough) << "the load does not get on";
  if (merges) std::this_thread::sleep_for(milliseconds(100));
}

void BusyThreads::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void BusyThreads::Fill() {
  for (uint32_t i = 0; !stop_; ++i) {
    const uint32_t number = static_cast<uint32_t>(uint64_t{i} * 7919 % AcknowledgedModel::kKeys);
    const Status status =
        times_->Time("Put", CallTimes::kPointCallMax, [&] { return model_->Put(db_, number); });
    if (!status.ok()) std::this_thread::sleep_for(kPauseAfterError);
    ++done_;
  }
}

void BusyThreads::Read(uint32_t seed) {
  Random random(seed);
  while (!stop_) {
    const auto number = static_cast<uint32_t>(random.Uniform(AcknowledgedModel::kKeys));
    const Status status =
        times_->Time("Get", CallTimes::kPointCallMax, [&] { return model_->Get(db_, number); });
    if (!status.ok()) std::this_thread::sleep_for(kPauseAfterError);
    ++done_;
  }
}

void BusyThreads::Merge() {
  // A few new versions, so that there is something to merge into all the rest.
  for (uint32_t first = 0; !stop_; ++first) {
    Status status;
    for (uint32_t number = first % 100; number < AcknowledgedModel::kKeys && status.ok();
         number += 100) {
      status =
          times_->Time("Put", CallTimes::kPointCallMax, [&] { return model_->Put(db_, number); });
    }
    if (status.ok())
      status = times_->Time("Flush", CallTimes::kLongCallMax,
                            [&] { return db_->Flush(FlushOptions()); });
    ++done_;
    const Status merged = times_->Time("CompactRange", CallTimes::kLongCallMax,
                                       [&] { return db_->CompactRange(nullptr, nullptr); });
    if (!status.ok() || !merged.ok()) std::this_thread::sleep_for(kPauseAfterError);
  }
}

}  // namespace dlsm
