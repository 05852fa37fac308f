// Several clients read and write the same keys over the network, through several event loops. What
// each asked and was answered is recorded, and then one order of all requests is looked for that
// explains every answer: each takes effect between the moment it was sent and the moment its answer
// came, and a transaction takes effect at one moment.
//
// Keys are registers with numbers: those of numbers have 1 + the number, those of texts the length.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/serve/server_testing.h"
#include "db/test/history_testing.h"
#include "db/test/linearizability_checker_testing.h"
#include "util/random.h"

namespace dlsm::serve {
namespace {

constexpr uint32_t kNumbers = 2;  // Registers 0 and 1: SET, INCR, DEL, GET.
constexpr uint32_t kTexts = 2;    // 2 and 3: APPEND, DEL, GET, all of one letter.
constexpr uint32_t kGroup = 6;    // From 4 on: written together, and read together.
constexpr uint32_t kFirstText = kNumbers;
constexpr uint32_t kFirstOfGroup = kNumbers + kTexts;

std::string KeyOf(uint32_t index) { return "register" + std::to_string(index); }

using Words = std::vector<std::string>;

// "(5)" -> 5, "\"5\"" -> 5.
uint64_t NumberIn(const std::string& answer) { return std::stoull(answer.substr(1)); }

uint64_t RegisterValue(uint32_t index, const std::string& answer) {
  if (answer == "nil") return kNoValue;
  const bool is_text = index >= kFirstText && index < kFirstOfGroup;
  return is_text ? answer.size() - 2 : NumberIn(answer) + 1;
}

// "[a, b]" -> a, b
std::vector<std::string> ElementsOf(const std::string& answer) {
  std::vector<std::string> elements;
  std::string rest = answer.substr(1, answer.size() - 2);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(", "), rest.size());
    elements.push_back(rest.substr(0, end));
    rest.erase(0, end + 2);
  }
  return elements;
}

// A client with requests under way, which it records when they are answered.
class Worker {
 public:
  Worker(int port, HistoryRecorder::Log* log, uint64_t seed)
      : client_(port), log_(*log), random_(seed), next_value_(seed * 1'000'000) {}

  // Sends up to three requests at once, and takes their answers.
  void Step() {
    std::vector<Pending> pending;
    const size_t count = 1 + random_.Uniform(3);
    for (size_t i = 0; i < count; ++i) pending.push_back(Send());
    for (Pending& each : pending) Receive(std::move(each));
  }

  // All registers, one after the other.
  void ReadAll() {
    for (uint32_t index = 0; index < kFirstOfGroup + kGroup; ++index) {
      Pending read = Begin({Operation::Kind::kRead, 0, "GET", 0, 0, {{index, 0}}}, Form::kValue);
      client_.Send({"GET", KeyOf(index)});
      Receive(std::move(read));
    }
  }

 private:
  enum class Form { kOk, kValue, kValues, kDeleted, kIncremented, kAppended, kTransaction };
  struct Pending {
    Operation operation;
    Form form;
    int queued = 0;  // Answers before the last one.
  };

  Pending Begin(Operation operation, Form form, int queued = 0) {
    operation.called = log_.Now();
    return {std::move(operation), form, queued};
  }

  Pending Send() {
    using Kind = Operation::Kind;
    const auto number = static_cast<uint32_t>(random_.Uniform(kNumbers));
    const auto text = kFirstText + static_cast<uint32_t>(random_.Uniform(kTexts));
    switch (random_.Uniform(14)) {
      case 0:
      case 1:
        return One({Kind::kWrite, 0, "INCR", 0, 0, {{number, 0}}}, Form::kIncremented,
                   {"INCR", KeyOf(number)});
      case 2: {
        const uint64_t value = ++next_value_;
        return One({Kind::kWrite, 0, "SET", 0, 0, {{number, value + 1}}}, Form::kOk,
                   {"SET", KeyOf(number), std::to_string(value)});
      }
      case 3:
        return One({Kind::kWrite, 0, "DEL", 0, 0, {{number, kNoValue}}}, Form::kDeleted,
                   {"DEL", KeyOf(number)});
      case 4:
        return One({Kind::kRead, 0, "GET", 0, 0, {{number, 0}}}, Form::kValue,
                   {"GET", KeyOf(number)});
      case 5:
      case 6:
        return One({Kind::kWrite, 0, "APPEND", 0, 0, {{text, 0}}}, Form::kAppended,
                   {"APPEND", KeyOf(text), "x"});
      case 7:
        return random_.OneIn(4) ? One({Kind::kWrite, 0, "DEL", 0, 0, {{text, kNoValue}}},
                                      Form::kDeleted, {"DEL", KeyOf(text)})
                                : One({Kind::kRead, 0, "GET", 0, 0, {{text, 0}}}, Form::kValue,
                                      {"GET", KeyOf(text)});
      case 8:
      case 9:
        return WriteGroup();
      case 10:
        return ReadAndChange(number, text);
      default:
        return ReadGroup();
    }
  }

  Pending One(Operation operation, Form form, const Words& words) {
    Pending pending = Begin(std::move(operation), form);
    client_.Send(words);
    return pending;
  }

  Pending Transaction(Operation operation, Form form, const std::vector<Words>& requests) {
    Pending pending = Begin(std::move(operation), form, static_cast<int>(requests.size()) + 1);
    std::string bytes = TestClient::Encode({"MULTI"});
    for (const Words& words : requests) bytes += TestClient::Encode(words);
    client_.SendBytes(bytes + TestClient::Encode({"EXEC"}));
    return pending;
  }

  // All of the group get one value, by a transaction or by one command.
  Pending WriteGroup() {
    const uint64_t value = ++next_value_;
    Operation write = {Operation::Kind::kWrite, 0, "MULTI SET...", 0, 0, {}};
    std::vector<Words> requests;
    Words all_at_once = {"MSET"};
    for (uint32_t i = 0; i < kGroup; ++i) {
      write.accesses.push_back({kFirstOfGroup + i, value + 1});
      requests.push_back({"SET", KeyOf(kFirstOfGroup + i), std::to_string(value)});
      all_at_once.insert(all_at_once.end(), requests.back().begin() + 1, requests.back().end());
    }
    if (random_.OneIn(2)) return Transaction(std::move(write), Form::kOk, requests);
    write.name = "MSET";
    return One(std::move(write), Form::kOk, all_at_once);
  }

  Pending ReadGroup() {
    Operation read = {Operation::Kind::kRead, 0, "MULTI GET...", 0, 0, {}};
    std::vector<Words> requests;
    Words all_at_once = {"MGET"};
    for (uint32_t i = 0; i < kGroup; ++i) {
      read.accesses.push_back({kFirstOfGroup + i, 0});
      requests.push_back({"GET", KeyOf(kFirstOfGroup + i)});
      all_at_once.push_back(KeyOf(kFirstOfGroup + i));
    }
    if (random_.OneIn(2)) return Transaction(std::move(read), Form::kValues, requests);
    read.name = "MGET";
    return One(std::move(read), Form::kValues, all_at_once);
  }

  // Reads one of the group, and adds to a number and a text.
  Pending ReadAndChange(uint32_t number, uint32_t text) {
    return Transaction(
        {Operation::Kind::kWrite,
         0,
         "MULTI GET INCR APPEND",
         0,
         0,
         {{kFirstOfGroup, 0}, {number, 0}, {text, 0}}},
        Form::kTransaction,
        {{"GET", KeyOf(kFirstOfGroup)}, {"INCR", KeyOf(number)}, {"APPEND", KeyOf(text), "x"}});
  }

  void Receive(Pending pending) {
    for (int i = 0; i < pending.queued; ++i) client_.Receive();  // OK, and QUEUED.
    const std::string answer = client_.Receive();
    pending.operation.returned = log_.Now();
    ASSERT_NE(answer, "closed");
    ASSERT_FALSE(answer.starts_with("-")) << answer;
    Understand(answer, pending.form, &pending.operation);
    log_.Add(std::move(pending.operation));
  }

  static void Understand(const std::string& answer, Form form, Operation* operation) {
    std::vector<Access>& accesses = operation->accesses;
    switch (form) {
      case Form::kOk:
        return;
      case Form::kValue:
        accesses[0].value = RegisterValue(accesses[0].register_index, answer);
        return;
      case Form::kValues: {
        const std::vector<std::string> elements = ElementsOf(answer);
        ASSERT_EQ(elements.size(), accesses.size()) << answer;
        for (size_t i = 0; i < accesses.size(); ++i) {
          accesses[i].value = RegisterValue(accesses[i].register_index, elements[i]);
        }
        return;
      }
      case Form::kDeleted:
        if (answer == "(0)") operation->kind = Operation::Kind::kRead;
        return;
      case Form::kIncremented:
        Increment(NumberIn(answer), &accesses[0], operation);
        return;
      case Form::kAppended:
        Append(NumberIn(answer), &accesses[0], operation);
        return;
      case Form::kTransaction: {
        const std::vector<std::string> elements = ElementsOf(answer);
        ASSERT_EQ(elements.size(), 3u) << answer;
        accesses[0].value = RegisterValue(accesses[0].register_index, elements[0]);
        operation->saw.push_back(accesses[0]);
        Increment(NumberIn(elements[1]), &accesses[1], operation);
        Append(NumberIn(elements[2]), &accesses[2], operation);
        return;
      }
    }
  }

  // A number is never 0, so that 1 is what an absent one becomes.
  static void Increment(uint64_t result, Access* access, Operation* operation) {
    access->value = result + 1;
    operation->saw.push_back({access->register_index, result == 1 ? kNoValue : result});
  }
  static void Append(uint64_t length, Access* access, Operation* operation) {
    access->value = length;
    operation->saw.push_back({access->register_index, length - 1});
  }

  TestClient client_;
  HistoryRecorder::Log& log_;
  Random random_;
  uint64_t next_value_;
};

class RespLinearizabilityTest : public ServerTest {};

// Fails if an addition is lost, if a client reads what was there before its request or what a
// transaction has done in part, or if clients see writes in different orders.
TEST_F(RespLinearizabilityTest, OneOrderExplainsAllAnswers) {
  constexpr int kClients = 4;
  constexpr int kSteps = 1200;
  RespServerOptions options;
  options.threads = 3;
  Start(options);
  HistoryRecorder recorder(kClients + 1);
  std::atomic<int> running{kClients};
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&, client] {
      Worker worker(server_->port(), &recorder.LogOf(client), static_cast<uint64_t>(client) + 1);
      for (int step = 0; step < kSteps && !HasFailure(); ++step) worker.Step();
      --running;
    });
  }
  while (running > 0) {
    EXPECT_OK(db_->Flush(FlushOptions()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& thread : threads) thread.join();
  Worker(server_->port(), &recorder.LogOf(kClients), 99).ReadAll();
  const Verdict verdict = CheckLinearizability(recorder.Collect());
  EXPECT_TRUE(verdict.outcome == Verdict::Outcome::kLinearizable) << verdict;
}

}  // namespace
}  // namespace dlsm::serve
