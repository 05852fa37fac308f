// The outcome of a call: success, or an error with a message. Const methods are thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Status {
 public:
  Status() noexcept : state_(nullptr) {}
  ~Status() { delete[] state_; }
  Status(const Status& rhs) : state_(rhs.state_ == nullptr ? nullptr : CopyState(rhs.state_)) {}
  Status& operator=(const Status& rhs) {
    if (state_ == rhs.state_) return *this;
    const char* const copy = rhs.state_ == nullptr ? nullptr : CopyState(rhs.state_);
    delete[] state_;
    state_ = copy;
    return *this;
  }
  Status(Status&& rhs) noexcept : state_(rhs.state_) { rhs.state_ = nullptr; }
  Status& operator=(Status&& rhs) noexcept {
    std::swap(state_, rhs.state_);
    return *this;
  }

  static Status OK() { return Status(); }
  // The message is `msg`, with ": " and `msg2` if that is not empty.
  static Status NotFound(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kNotFound, msg, msg2);
  }
  static Status Corruption(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kCorruption, msg, msg2);
  }
  static Status NotSupported(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kNotSupported, msg, msg2);
  }
  static Status InvalidArgument(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kInvalidArgument, msg, msg2);
  }
  static Status IOError(const Slice& msg, const Slice& msg2 = Slice()) {
    return Status(kIOError, msg, msg2);
  }

  bool ok() const { return state_ == nullptr; }
  bool IsNotFound() const { return code() == kNotFound; }
  bool IsCorruption() const { return code() == kCorruption; }
  bool IsIOError() const { return code() == kIOError; }
  bool IsNotSupportedError() const { return code() == kNotSupported; }
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // For people: "OK", or the kind of the error and its message.
  std::string ToString() const;

 private:
  enum Code {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5
  };

  Code code() const { return state_ == nullptr ? kOk : static_cast<Code>(state_[4]); }

  Status(Code code, const Slice& msg, const Slice& msg2);
  static const char* CopyState(const char* s);

  // Null means OK. Otherwise: bytes of the message (4) | code (1) | message. Programs that were
  // compiled for LevelDB 1.23 read this.
  const char* state_;
};

}  // namespace leveldb
