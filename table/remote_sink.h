// A sink whose image lies on a memory node. Where the fabric lets this thread address that memory,
// the window is the image itself; elsewhere windows are registered buffers, written out while the
// next ones fill.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "table/table_reader.h"
#include "table/table_sink.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Used by one thread only, destruction included. A sink that is destroyed before Finish() leaves an
// unfinished image; writes that are still under way then may land in it later, so its memory is to
// be reused only after the thread's queue pair has been waited for or closed.
class RemoteSink final : public TableSink {
 public:
  // `queue_pairs` outlives the sink. `timeout` is for each wait.
  static Status Open(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
                     std::chrono::nanoseconds timeout, std::unique_ptr<TableSink>* sink);
  ~RemoteSink() override;

  uint64_t capacity() const override { return image_.bytes; }
  Status Finish() override;

 protected:
  Status NextWindow() override;

 private:
  // Four of one megabyte: enough for a link of 100 Gb/s and 300 us of latency.
  static constexpr size_t kWindows = 4;
  static constexpr size_t kWindowBytes = size_t{1} << 20;

  struct Window final : Transfer {
    RegisteredBuffer buffer;
    Ticket ticket{};
    bool posted = false;
  };

  RemoteSink(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
             std::chrono::nanoseconds timeout)
      : image_(image), queue_pairs_(queue_pairs), purpose_(purpose), timeout_(timeout) {}

  Status OpenFirstWindow();
  Status UseWindow(size_t i);
  Status PostCurrent(QueuePair* queue_pair);
  Status WaitFor(QueuePair* queue_pair, Window* window);
  Status WaitForAll();

  const RemoteSpan image_;
  QueuePairs* const queue_pairs_;
  const Purpose purpose_;
  const std::chrono::nanoseconds timeout_;
  bool direct_ = false;
  uint64_t disposed_ = 0;  // Bytes of the image that are posted or in place.
  std::vector<std::shared_ptr<Window>> windows_;
  size_t current_ = 0;
};

}  // namespace dlsm
