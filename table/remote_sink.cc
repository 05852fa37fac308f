#include "table/remote_sink.h"

#include <algorithm>
#include <cassert>

#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {

Status RemoteSink::Open(const RemoteSpan& image, QueuePairs* queue_pairs, Purpose purpose,
                        std::chrono::nanoseconds timeout, std::unique_ptr<TableSink>* sink) {
  std::unique_ptr<RemoteSink> opened(new RemoteSink(image, queue_pairs, purpose, timeout));
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
  const Status status = WaitForAll();
  if (!status.ok()) {
    Log().warn("an unfinished table was dropped while its writes were failing: {}",
               status.ToString());
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
  if (next < windows_.size()) DLSM_RETURN_IF_ERROR(WaitFor(queue_pair, windows_[next].get()));
  return UseWindow(next);
}

// Window `i` has no transfer under way.
Status RemoteSink::UseWindow(size_t i) {
  if (i == windows_.size()) {
    auto window = std::make_shared<Window>();
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
  Window& window = *windows_[current_];
  const uint64_t bytes = appended() - disposed_;
  window.Reset();
  DLSM_RETURN_IF_ERROR(queue_pair->PostWrite(
      window.buffer.span().Sub(0, bytes), image_.Sub(disposed_, bytes), purpose_, &window.ticket));
  window.posted = true;
  queue_pair->held().Hold(window.ticket, windows_[current_]);
  disposed_ += bytes;
  limit_ = cursor_;  // Nothing goes into a window that is under way.
  return queue_pair->Ring();
}

Status RemoteSink::WaitFor(QueuePair* queue_pair, Window* window) {
  if (!window->posted || window->complete()) return Status::OK();
  if (!queue_pair->held().Holds(*window)) {
    return Status::IOError("the connection to a memory node was lost in the middle of a table");
  }
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(window->ticket, Deadline::In(timeout_)));
  queue_pair->held().Complete(window->ticket);
  return Status::OK();
}

Status RemoteSink::WaitForAll() {
  const auto under_way = [](const auto& window) { return window->posted && !window->complete(); };
  if (std::none_of(windows_.begin(), windows_.end(), under_way)) return Status::OK();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(image_.node, &queue_pair));
  for (const auto& window : windows_) DLSM_RETURN_IF_ERROR(WaitFor(queue_pair, window.get()));
  return Status::OK();
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
  return WaitForAll();
}

}  // namespace dlsm
