#include "dLSM/status.h"

#include <new>
#include <stdexcept>
#include <utility>

#ifdef DLSM_CHECK_STATUSES
#include <cstdio>
#include <cstdlib>
#endif

#ifdef DLSM_CHECK_STATUSES
// Of the sanitizers' runtime.
extern "C" void __sanitizer_print_stack_trace();  // NOLINT(bugprone-reserved-identifier)
#endif

namespace dlsm {
namespace {

const char* CodeName(Status::Code code) {
  switch (code) {
    case Status::Code::kOk:
      return "OK";
    case Status::Code::kNotFound:
      return "NotFound";
    case Status::Code::kCorruption:
      return "Corruption";
    case Status::Code::kNotSupported:
      return "Not supported";
    case Status::Code::kInvalidArgument:
      return "Invalid argument";
    case Status::Code::kIOError:
    case Status::Code::kIOFenced:
      return "IO error";
    case Status::Code::kBusy:
      return "Busy";
    case Status::Code::kTimedOut:
      return "Timed out";
    case Status::Code::kAborted:
      return "Aborted";
    case Status::Code::kIncomplete:
      return "Incomplete";
  }
  return "Unknown";
}

bool IsKnown(Status::Code code) { return code <= Status::Code::kIncomplete; }

}  // namespace

#ifdef DLSM_CHECK_STATUSES
void StatusDuty::ReportUnexamined() noexcept {
  std::fputs("a Status was dropped that nobody had looked at; see the stack\n", stderr);
  __sanitizer_print_stack_trace();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  if (std::getenv("DLSM_REPORT_ONLY") == nullptr) std::abort();
}
#endif

// Without a message nothing is allocated: a key that is not found is no rare event.
Status::Status(Code code, const Slice& what, const Slice& detail) noexcept : code_(code) {
  duty_.Impose(/*ok=*/false);
  if (what.empty() && detail.empty()) return;
  try {
    auto message = std::make_unique<std::string>(what.data(), what.size());
    if (!detail.empty()) {
      message->append(": ");
      message->append(detail.data(), detail.size());
    }
    message_ = std::move(message);
  } catch (const std::bad_alloc&) {
    // The code says the most important part.
  } catch (const std::length_error&) {
    // Longer than any process has memory for.
  }
}

std::unique_ptr<std::string> Status::CopyOf(const std::string& message) noexcept {
  try {
    return std::make_unique<std::string>(message);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Status Status::FromCode(Code code, const Slice& message) {
  if (code == Code::kOk) return OK();
  return Status(IsKnown(code) ? code : Code::kIOError, message, Slice());
}

std::string Status::ToString() const {
  std::string text = CodeName(code_);
  if (ok()) return text;
  text.append(": ");
  text.append(message().data(), message().size());
  return text;
}

}  // namespace dlsm
