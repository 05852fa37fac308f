#include "db/serve/slow_log.h"

#include <fmt/core.h>

#include <utility>

namespace dlsm::serve {
namespace {

constexpr size_t kArgumentsMost = 32;
constexpr size_t kArgumentBytesMost = 128;

}  // namespace

void SlowLog::Add(const Session& session, const std::vector<Slice>& arguments, int64_t now,
                  int64_t micros) {
  Entry entry{0, now / 1000, micros, {}, session.peer, session.name};
  for (const Slice& argument : arguments) {
    if (entry.arguments.size() == kArgumentsMost - 1 && arguments.size() > kArgumentsMost) {
      entry.arguments.push_back(
          fmt::format("... ({} more arguments)", arguments.size() - kArgumentsMost + 1));
      break;
    }
    if (argument.size() <= kArgumentBytesMost) {
      entry.arguments.push_back(argument.ToString());
    } else {
      entry.arguments.push_back(fmt::format("{}... ({} more bytes)",
                                            argument.ToStringView().substr(0, kArgumentBytesMost),
                                            argument.size() - kArgumentBytesMost));
    }
  }
  const port::MutexLock lock(mutex_);
  entry.number = next_++;
  entries_.push_front(std::move(entry));
  while (entries_.size() > max_length_) entries_.pop_back();
}

std::vector<SlowLog::Entry> SlowLog::Newest(int64_t count) const {
  const port::MutexLock lock(mutex_);
  std::vector<Entry> newest;
  for (const Entry& entry : entries_) {
    if (count >= 0 && static_cast<int64_t>(newest.size()) == count) break;
    newest.push_back(entry);
  }
  return newest;
}

size_t SlowLog::length() const {
  const port::MutexLock lock(mutex_);
  return entries_.size();
}

void SlowLog::Clear() {
  const port::MutexLock lock(mutex_);
  entries_.clear();
}

void SlowLog::set_max_length(size_t length) {
  max_length_ = length;
  const port::MutexLock lock(mutex_);
  while (entries_.size() > length) entries_.pop_back();
}

}  // namespace dlsm::serve
