#include "table/remote_sink.h"

#include <algorithm>
#include <cassert>

#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status WaitFor(QueuePair* queue_pair, WriteWindow* window, std::chrono::nanoseconds timeout) {
  if (!window->posted || window->complete()) return Status::OK();
  if (!queue_pair->held().Holds(*window)) {
    return Status::IOError("the connection to a memory node was lost in the middle of a table");
  }
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(window->ticket, Deadline::In(timeout)));
  queue_pair->held().Complete(window->ticket);
  return Status::OK();
}

Status WaitForAllOf(NodeId node, const std::vector<std::shared_ptr<WriteWindow>>& windows,
                    QueuePairs* queue_pairs, std::chrono::nanoseconds timeout) {
  const auto under_way = [](const auto& window) { return window->posted && !window->complete(); };
  if (std::none_of(windows.begin(), windows.end(), under_way)) return Status::OK();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs->ForThisThread(node, &queue_pair));
  for (const auto& window : windows) {
    DLSM_RETURN_IF_ERROR(WaitFor(queue_pair, window.get(), timeout));
  }
  return Status::OK();
}

}  // namespace

Status UnfinishedWrites::Add(NodeId node, std::vector<std::shared_ptr<WriteWindow>> windows) {
  images_.emplace_back(node, std::move(windows));
  return images_.size() > kImagesMax ? WaitForOldest() : Status::OK();
}

Status UnfinishedWrites::WaitForOldest() {
  const auto image = std::move(images_.front());
  images_.erase(images_.begin());
  return WaitForAllOf(image.first, image.second, queue_pairs_, timeout_);
}

Status UnfinishedWrites::Wait() {
  Status first_error;
  while (!images_.empty()) {
    KeepFirstError(WithinMemory([this] { return WaitForOldest(); }), &first_error);
  }
  return first_error;
}

Status RemoteSink::Open(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
                        std::chrono::nanoseconds timeout, std::unique_ptr<TableSink>* sink,
                        UnfinishedWrites* unfinished) {
  std::unique_ptr<RemoteSink> opened(
      new RemoteSink(image, queue_pairs, purpose, timeout, unfinished));
  DLSM_RETURN_IF_ERROR(opened->OpenFirstWindow());
  *sink = std::move(opened);
  return Status::OK();
}

Status RemoteSink::OpenFirstWindow() {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(image_.node, &queue_pair));
  if (char* const memory = queue_pair->Direct(image_); memory != nullptr) {
    direct_ = true;
    cursor_ = memory;
    limit_ = memory + image_.bytes;
    return Status::OK();
  }
  return UseWindow(0);
}

RemoteSink::~RemoteSink() {
  // Who waits in vain leaves the windows to the queue pair, which shares them.
  const Status status = WithinMemory([this] { return WaitForAll(); });
  if (!status.ok()) {
    Log().Warn("an unfinished table was dropped while its writes were failing: {}",
               status.message().ToStringView());
  }
}

Status RemoteSink::NextWindow() {
  if (appended() >= image_.bytes) {
    return Status::IOError("a table does not fit in the memory that was allocated for it",
                           std::to_string(image_.bytes) + " bytes");
  }
  assert(!direct_);  // There the first window is all of the image.
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(image_.node, &queue_pair));
  DLSM_RETURN_IF_ERROR(PostCurrent(queue_pair));
  const size_t next = (current_ + 1) % kWindows;
  if (next < windows_.size())
    DLSM_RETURN_IF_ERROR(WaitFor(queue_pair, windows_[next].get(), timeout_));
  return UseWindow(next);
}

// Window `i` has no transfer under way.
Status RemoteSink::UseWindow(size_t i) {
  if (i == windows_.size()) {
    auto window = std::make_shared<WriteWindow>();
    const uint64_t bytes = std::min<uint64_t>(kWindowBytes, std::max<uint64_t>(image_.bytes, 1));
    DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(image_.node, bytes, &window->buffer));
    windows_.push_back(std::move(window));
  }
  current_ = i;
  const RegisteredBuffer& buffer = windows_[i]->buffer;
  cursor_ = buffer.data();
  limit_ = cursor_ + std::min<uint64_t>(buffer.bytes(), image_.bytes - disposed_);
  return Status::OK();
}

Status RemoteSink::PostCurrent(QueuePair* queue_pair) {
  WriteWindow& window = *windows_[current_];
  const uint64_t bytes = appended() - disposed_;
  window.Reset();
  queue_pair->held().MakeRoom();
  DLSM_RETURN_IF_ERROR(queue_pair->PostWrite(
      window.buffer.span().Sub(0, bytes), image_.Sub(disposed_, bytes), purpose_, &window.ticket));
  window.posted = true;
  queue_pair->held().Hold(window.ticket, windows_[current_]);
  disposed_ += bytes;
  limit_ = cursor_;  // Nothing goes into a window that is under way.
  return queue_pair->Ring();
}

Status RemoteSink::WaitForAll() {
  return WaitForAllOf(image_.node, windows_, queue_pairs_, timeout_);
}

Status RemoteSink::Finish() {
  if (appended() == disposed_) return WaitForAll();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(image_.node, &queue_pair));
  if (direct_) {
    queue_pair->CountDirectWrite(appended(), purpose_);
    disposed_ = appended();
    return Status::OK();
  }
  DLSM_RETURN_IF_ERROR(PostCurrent(queue_pair));
  if (unfinished_ != nullptr) return unfinished_->Add(image_.node, std::move(windows_));
  return WaitForAll();
}

}  // namespace dlsm
