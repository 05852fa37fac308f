#include "dLSM/status.h"

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

Status::Status(Code code, const Slice& what, const Slice& detail)
    : code_(code), message_(std::make_unique<std::string>(what.data(), what.size())) {
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
