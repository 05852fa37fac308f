#include "dLSM/status.h"

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
  }
  return "Unknown";
}

bool IsKnown(Status::Code code) { return code <= Status::Code::kIOFenced; }

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
Status::Status(Code code, const Slice& what, const Slice& detail) : code_(code) {
  duty_.Impose(/*ok=*/false);
  if (what.empty() && detail.empty()) return;
  message_ = std::make_unique<std::string>(what.data(), what.size());
  if (detail.empty()) return;
  message_->append(": ");
  message_->append(detail.data(), detail.size());
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
