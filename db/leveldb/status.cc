// leveldb::Status, and outcomes from one interface to the other.
#include "leveldb/status.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "db/leveldb/translate.h"
#include "port/error_text.h"

namespace leveldb {
namespace {

constexpr size_t kStateHeaderBytes = 5;  // See Status::state_.

uint32_t MessageBytes(const char* state) {
  uint32_t bytes;
  std::memcpy(&bytes, state, sizeof(bytes));
  return bytes;
}

}  // namespace

Status::Status(Code code, const Slice& msg, const Slice& msg2) {
  std::string message = msg.ToString();
  if (!msg2.empty()) message += ": " + msg2.ToString();
  const auto bytes = static_cast<uint32_t>(message.size());
  char* const state = new char[kStateHeaderBytes + bytes];
  std::memcpy(state, &bytes, sizeof(bytes));
  state[4] = static_cast<char>(code);
  std::memcpy(state + kStateHeaderBytes, message.data(), bytes);
  state_ = state;
}

const char* Status::CopyState(const char* s) {
  const size_t bytes = kStateHeaderBytes + MessageBytes(s);
  char* const copy = new char[bytes];
  std::memcpy(copy, s, bytes);
  return copy;
}

std::string Status::ToString() const {
  if (state_ == nullptr) return "OK";
  std::string text;
  switch (code()) {
    case kOk:
      text = "OK";
      break;
    case kNotFound:
      text = "NotFound: ";
      break;
    case kCorruption:
      text = "Corruption: ";
      break;
    case kNotSupported:
      text = "Not implemented: ";
      break;
    case kInvalidArgument:
      text = "Invalid argument: ";
      break;
    case kIOError:
      text = "IO error: ";
      break;
    default:
      text = "Unknown code(" + std::to_string(static_cast<int>(code())) + "): ";
      break;
  }
  return text.append(state_ + kStateHeaderBytes, MessageBytes(state_));
}

}  // namespace leveldb

namespace dlsm::compat {

namespace {

struct Remedy {
  std::string_view own;
  std::string_view here;
};

// Remedies that name an option of dLSM's are of no use to a program of LevelDB's.
constexpr Remedy kRemedies[] = {
    {"set log_bytes_max to more, or write less at a time", "write less at a time"},
    {"set Options::embedded_memory_bytes higher",
     "set DLSM_DIRECTORY_BYTES in the environment to more"},
};

std::string WithRemedyHere(const dlsm::Slice& message) {
  std::string text = message.ToString();
  for (const Remedy& remedy : kRemedies) {
    const size_t at = text.find(remedy.own);
    if (at != std::string::npos) text.replace(at, remedy.own.size(), remedy.here);
  }
  return text;
}

}  // namespace

leveldb::Status ToLeveldb(const dlsm::Status& status) {
  if (status.ok()) [[likely]]
    return leveldb::Status::OK();
  const std::string message = WithRemedyHere(status.message());
  switch (status.code()) {
    case dlsm::Status::Code::kNotFound:
      return leveldb::Status::NotFound(message);
    case dlsm::Status::Code::kCorruption:
      return leveldb::Status::Corruption(message);
    case dlsm::Status::Code::kNotSupported:
      return leveldb::Status::NotSupported(message);
    case dlsm::Status::Code::kInvalidArgument:
      return leveldb::Status::InvalidArgument(message);
    default:
      return leveldb::Status::IOError(message);
  }
}

leveldb::Status SystemError(const std::string& context, int error) {
  const std::string text = port::ErrorText(error);
  if (error == ENOENT) return leveldb::Status::NotFound(context, text);
  return leveldb::Status::IOError(context, text);
}

}  // namespace dlsm::compat
