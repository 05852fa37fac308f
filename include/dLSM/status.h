// The outcome of an operation. Everything that a user, a peer or the network can cause is reported
// by a Status whose message names the cause and, where there is one, the remedy. Where the process
// has no memory for the message, there is none: to make a Status, or to copy one, never throws.
//
// Many threads may call const methods of one Status at once.
#pragma once

#ifdef DLSM_CHECK_STATUSES
#include <atomic>
#endif
#include <memory>
#include <string>

#include "dLSM/slice.h"

namespace dlsm {

// In a build with DLSM_CHECK_STATUSES, a Status that somebody has returned and nobody has looked at
// ends the program where it is destroyed, and an error where it is replaced (with DLSM_REPORT_ONLY
// in the environment it is only reported, with the stack). In others this is nothing.
//
// Thread-safe.
class StatusDuty {
 public:
#ifdef DLSM_CHECK_STATUSES
  StatusDuty() noexcept = default;
  StatusDuty(const StatusDuty& other) noexcept : duty_(other.duty_.exchange(Duty::kNone)) {}
  StatusDuty& operator=(const StatusDuty& other) noexcept {
    if (this == &other) return *this;
    // An OK that is replaced is most often the one that a loop begins with.
    if (duty_ == Duty::kError) ReportUnexamined();
    duty_ = other.duty_.exchange(Duty::kNone);
    return *this;
  }
  ~StatusDuty() {
    if (duty_ != Duty::kNone) ReportUnexamined();
  }

  void Impose(bool ok) noexcept { duty_ = ok ? Duty::kOk : Duty::kError; }
  void Meet() const noexcept { duty_ = Duty::kNone; }

 private:
  enum class Duty : unsigned char { kNone, kOk, kError };
  static void ReportUnexamined() noexcept;

  // A copy takes the duty over: one of the two has to be looked at.
  mutable std::atomic<Duty> duty_{Duty::kNone};
#else
  void Impose(bool) noexcept {}
  void Meet() const noexcept {}
#endif
};

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
    kIncomplete = 10,
  };

  Status() noexcept = default;
  Status(const Status& other) noexcept
      : code_(other.code_),
        duty_(other.duty_),
        message_(other.message_ ? CopyOf(*other.message_) : nullptr) {}
  Status& operator=(const Status& other) noexcept {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status OK() {
    Status status;
    status.duty_.Impose(/*ok=*/true);
    return status;
  }
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
  // The call may not do all that its answer needs: see ReadOptions::read_tier.
  static Status Incomplete(const Slice& what, const Slice& detail = Slice()) {
    return Status(Code::kIncomplete, what, detail);
  }
  // For codes that arrive over a wire. An unknown code becomes kIOError.
  static Status FromCode(Code code, const Slice& message);

  // Says that this outcome changes nothing for its receiver, who need not look at it.
  void PermitUncheckedError() const { duty_.Meet(); }

  bool ok() const { return code() == Code::kOk; }
  bool IsNotFound() const { return code() == Code::kNotFound; }
  bool IsCorruption() const { return code() == Code::kCorruption; }
  bool IsNotSupportedError() const { return code() == Code::kNotSupported; }
  bool IsNotSupported() const { return code() == Code::kNotSupported; }
  bool IsInvalidArgument() const { return code() == Code::kInvalidArgument; }
  bool IsIOError() const { return code() == Code::kIOError || IsIOFenced(); }
  bool IsIOFenced() const { return code() == Code::kIOFenced; }
  bool IsBusy() const { return code() == Code::kBusy; }
  bool IsTimedOut() const { return code() == Code::kTimedOut; }
  bool IsAborted() const { return code() == Code::kAborted; }
  bool IsIncomplete() const { return code() == Code::kIncomplete; }

  Code code() const {
    duty_.Meet();
    return code_;
  }
  // The message without the code's name; empty for OK.
  Slice message() const {
    duty_.Meet();
    return message_ ? Slice(*message_) : Slice();
  }
  // "OK", or the code's name and the message, for people.
  std::string ToString() const;

 private:
  Status(Code code, const Slice& what, const Slice& detail) noexcept;
  // Null where there is no memory for it.
  static std::unique_ptr<std::string> CopyOf(const std::string& message) noexcept;

  Code code_ = Code::kOk;
  [[no_unique_address]] StatusDuty duty_;
  std::unique_ptr<std::string> message_;
};

}  // namespace dlsm
