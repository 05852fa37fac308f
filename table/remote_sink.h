// A sink whose image lies on a memory node. Where the fabric lets this thread address that memory,
// the window is the image itself; elsewhere windows are registered buffers, written out while the
// next ones fill.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "table/table_reader.h"
#include "table/table_sink.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// A registered buffer and its transfer.
struct WriteWindow final : Transfer {
  RegisteredBuffer buffer;
  Ticket ticket{};
  bool posted = false;
};

// Writes that sinks have begun and left to be waited for later: so that the transfer of one image
// goes on while the next one is built. Used by one thread only. A destructor does not wait.
class UnfinishedWrites {
 public:
  // `queue_pairs` outlives this.
  UnfinishedWrites(QueuePairs* queue_pairs, std::chrono::nanoseconds timeout)
      : queue_pairs_(queue_pairs), timeout_(timeout) {}

  // Waits for all, and returns the first error. Where there is no memory to wait for one, that is
  // an error like others.
  Status Wait();

 private:
  friend class RemoteSink;
  // So that buffers do not pile up: where more than this wait, the oldest are waited for first.
  static constexpr size_t kImagesMax = 8;

  Status Add(NodeId node, std::vector<std::shared_ptr<WriteWindow>> windows);
  Status WaitForOldest();

  QueuePairs* const queue_pairs_;
  const std::chrono::nanoseconds timeout_;
  std::vector<std::pair<NodeId, std::vector<std::shared_ptr<WriteWindow>>>> images_;
};

// Used by one thread only, destruction included. A sink that is destroyed before Finish() leaves an
// unfinished image; writes that are still under way then may land in it later, so its memory is to
// be reused only after the thread's queue pair has been waited for or closed.
class RemoteSink final : public TableSink {
 public:
  // `queue_pairs` outlives the sink. `timeout` is for each wait. With `unfinished`, which outlives
  // the sink, Finish() leaves what is under way to it.
  static Status Open(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
                     std::chrono::nanoseconds timeout, std::unique_ptr<TableSink>* sink,
                     UnfinishedWrites* unfinished = nullptr);
  ~RemoteSink() override;

  uint64_t capacity() const override { return image_.bytes; }
  Status Finish() override;

 protected:
  Status NextWindow() override;

 private:
  // Four of one megabyte: enough for a link of 100 Gb/s and 300 us of latency.
  static constexpr size_t kWindows = 4;
  static constexpr size_t kWindowBytes = size_t{1} << 20;

  RemoteSink(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
             std::chrono::nanoseconds timeout, UnfinishedWrites* unfinished)
      : image_(image),
        queue_pairs_(queue_pairs),
        purpose_(purpose),
        timeout_(timeout),
        unfinished_(unfinished) {}

  Status OpenFirstWindow();
  Status UseWindow(size_t i);
  Status PostCurrent(QueuePair* queue_pair);
  Status WaitForAll();

  const RemoteSpan image_;
  QueuePairs* const queue_pairs_;
  const Purpose purpose_;
  const std::chrono::nanoseconds timeout_;
  UnfinishedWrites* const unfinished_;  // Null: Finish() waits.
  bool direct_ = false;
  uint64_t disposed_ = 0;  // Bytes of the image that are posted or in place.
  std::vector<std::shared_ptr<WriteWindow>> windows_;
  size_t current_ = 0;
};

}  // namespace dlsm
