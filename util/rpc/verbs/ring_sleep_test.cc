#include "util/rpc/verbs/ring_sleep.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>

#include "util/random.h"

namespace dlsm {
namespace {

// A writer and a reader with a network between them that keeps the order in each direction, and
// takes as long as it likes.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      switch (random_.Uniform(4)) {
        case 0:
          WriterStep();
          break;
        case 1:
          ReaderStep();
          break;
        case 2:
          DeliverToReader();
          break;
        default:
          DeliverToWriter();
      }
    }
    // Everybody gets time now. What is outstanding then has been missed.
    for (int step = 0; step < 100; ++step) {
      if (waiting_) WriterLooks();
      ReaderStep();
      DeliverToReader();
      DeliverToWriter();
    }
    if (waiting_) WriterLooks();
  }

  bool waiting() const { return waiting_; }
  int replies() const { return replies_; }
  int sleeps() const { return sleeps_; }

 private:
  struct ToReader {
    bool message = false;
    bool wake = false;
  };
  struct ToWriter {
    bool reply = false;
    uint64_t state = 0;
  };

  void WriterStep() {
    if (waiting_) return WriterLooks();
    const uint64_t state = seen_state_;
    ToReader sent{true, wake_.Needed(state)};
    if (sent.wake) wake_.Sent(state);
    to_reader_.push_back(sent);
    waiting_ = true;
    replied_ = false;
    look_at_state_ = false;
  }
  // Looks for the reply and at the state in turn: things happen in between.
  void WriterLooks() {
    look_at_state_ = !look_at_state_;
    if (look_at_state_) {
      waiting_ = !replied_;
      if (!waiting_) ++replies_;
      return;
    }
    if (!wake_.Needed(seen_state_)) return;
    wake_.Sent(seen_state_);
    to_reader_.push_back(ToReader{false, true});
  }

  void ReaderStep() {
    if (asleep_) {
      if (!event_) return;
      asleep_ = false;
    }
    bool active = event_;
    event_ = false;
    if (unread_ > 0) {
      --unread_;
      active = true;
      to_writer_.push_back(ToWriter{true, 0});
    }
    if (active) {
      if (sleep_.Active()) to_writer_.push_back(ToWriter{false, sleep_.state()});
      return;
    }
    switch (sleep_.Idle()) {
      case RingSleep::Next::kTell:
        to_writer_.push_back(ToWriter{false, sleep_.state()});
        break;
      case RingSleep::Next::kSleep:
        asleep_ = true;
        ++sleeps_;
        break;
      case RingSleep::Next::kPoll:
        break;
    }
  }

  void DeliverToReader() {
    if (to_reader_.empty()) return;
    if (to_reader_.front().message) ++unread_;
    if (to_reader_.front().wake) event_ = true;
    to_reader_.pop_front();
  }
  void DeliverToWriter() {
    if (to_writer_.empty()) return;
    const ToWriter arrived = to_writer_.front();
    to_writer_.pop_front();
    if (arrived.reply) {
      replied_ = true;
    } else {
      seen_state_ = arrived.state;
      sleep_.Told(arrived.state);
    }
  }

  Random random_;
  std::deque<ToReader> to_reader_;
  std::deque<ToWriter> to_writer_;

  RingWake wake_;
  uint64_t seen_state_ = kFirstRingState;
  bool waiting_ = false;
  bool replied_ = false;
  bool look_at_state_ = false;
  int replies_ = 0;

  RingSleep sleep_;
  bool asleep_ = false;
  bool event_ = false;  // Of a wake-up.
  int unread_ = 0;
  int sleeps_ = 0;
};

// Fails if a reader does anything before it has heard of its writer, or if a writer does not know
// that its first message has to wake it.
TEST(RingSleepTest, TheReaderSleepsUntilItIsWoken) {
  RingSleep reader;
  RingWake writer;
  EXPECT_EQ(reader.state(), kFirstRingState);
  EXPECT_EQ(reader.Idle(), RingSleep::Next::kSleep);
  EXPECT_TRUE(writer.Needed(kFirstRingState));
  writer.Sent(kFirstRingState);
  EXPECT_FALSE(writer.Needed(kFirstRingState));
  EXPECT_TRUE(reader.Active()) << "the writer hears that it is awake";
  EXPECT_EQ(reader.Idle(), RingSleep::Next::kTell);
  EXPECT_TRUE(writer.Needed(reader.state())) << "it is another sleep";
}

// Fails if there is an order of events in which a message lies in the ring while its reader sleeps
// and nobody is going to wake it; as when a wake-up that came for nothing did not end the sleep.
TEST(RingSleepTest, NoMessageIsSleptThrough) {
  int replies = 0;
  int sleeps = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Simulation simulation(seed);
    simulation.Run(400);
    ASSERT_FALSE(simulation.waiting()) << "seed " << seed;
    replies += simulation.replies();
    sleeps += simulation.sleeps();
  }
  EXPECT_GT(replies, 10000);
  EXPECT_GT(sleeps, 10000);
}

}  // namespace
}  // namespace dlsm
