// The outcome of an operation. Everything that a user, a peer or the network can cause is reported
// by a Status whose message names the cause and, where there is one, the remedy.
//
// Many threads may call const methods of one Status at once.
#pragma once

#include <memory>
#include <string>

#include "dLSM/slice.h"

namespace dlsm {

class [[nodiscard]] Status {
 public:
  enum class Code : unsigned char {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5,
    kBusy = 6,
    kTimedOut = 7,
    kAborted = 8,
    kIOFenced = 9,
  };

  Status() noexcept = default;
  Status(const Status& other)
      : code_(other.code_),
        message_(other.message_ ? std::make_unique<std::string>(*other.message_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status OK() { return Status(); }
  static Status NotFound(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kNotFound, what, detail);
  }
  static Status Corruption(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kCorruption, what, detail);
  }
  static Status NotSupported(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kNotSupported, what, detail);
  }
  static Status InvalidArgument(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kInvalidArgument, what, detail);
  }
  static Status IOError(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kIOError, what, detail);
  }
  // An IOError for good: another process has taken over what this handle wrote to.
  static Status IOFenced(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kIOFenced, what, detail);
  }
  // The resource is in use or full for now; the same call may succeed later.
  static Status Busy(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kBusy, what, detail);
  }
  static Status TimedOut(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kTimedOut, what, detail);
  }
  static Status Aborted(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kAborted, what, detail);
  }
  // For codes that arrive over a wire. An unknown code becomes kIOError.
  static Status FromCode(Code code, const Slice& message);

  bool ok() const { return code_ == Code::kOk; }
  bool IsNotFound() const { return code_ == Code::kNotFound; }
  bool IsCorruption() const { return code_ == Code::kCorruption; }
  bool IsNotSupportedError() const { return code_ == Code::kNotSupported; }
  bool IsNotSupported() const { return code_ == Code::kNotSupported; }
  bool IsInvalidArgument() const { return code_ == Code::kInvalidArgument; }
  bool IsIOError() const { return code_ == Code::kIOError || IsIOFenced(); }
  bool IsIOFenced() const { return code_ == Code::kIOFenced; }
  bool IsBusy() const { return code_ == Code::kBusy; }
  bool IsTimedOut() const { return code_ == Code::kTimedOut; }
  bool IsAborted() const { return code_ == Code::kAborted; }

  Code code() const { return code_; }
  // The message without the code's name; empty for OK.
  Slice message() const { return message_ ? Slice(*message_) : Slice(); }
  // "OK", or the code's name and the message, for people.
  std::string ToString() const;

 private:
  Status(Code code, const Slice& what, const Slice& detail);

  Code code_ = Code::kOk;
  std::unique_ptr<std::string> message_;
};

}  // namespace dlsm
