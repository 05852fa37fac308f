// Who may use which databases of a memory node: clients with a secret of their own.
//
// A file, readable by its owner only, with a line for each client; `#` starts a comment:
//
//   NAME SECRET [own=PATTERN,...] [read=PATTERN,...]
//
// `own`: open, write, read and destroy; `read`: follow. A `*` in a pattern stands for any bytes.
// What decides is the database's name as users know it: without what shards and ranges add
// (database_name.h).
//
// A list may be replaced by another one while its clients are at work. They are asked about at each
// call and each transfer, so what their lines say counts from then on.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"

namespace dlsm {

inline constexpr size_t kAccessNameBytesMax = 64;

struct AccessPatterns {
  std::vector<std::string> own;
  std::vector<std::string> read;
};

// Of one client that knows one secret. Thread-safe.
class AccessRights {
 public:
  AccessRights(std::string name, std::string secret, AccessPatterns patterns)
      : name_(std::move(name)), secret_(std::move(secret)), patterns_(std::move(patterns)) {}

  const std::string& name() const { return name_; }
  const std::string& secret() const { return secret_; }
  // `database` is a name as memory nodes know it.
  bool MayOwn(std::string_view database) const LOCKS_EXCLUDED(mutex_);
  bool MayRead(std::string_view database) const LOCKS_EXCLUDED(mutex_);  // Or own.
  // For ever: the list has no line with this name and secret any more.
  bool revoked() const LOCKS_EXCLUDED(mutex_);

  AccessPatterns patterns() const LOCKS_EXCLUDED(mutex_);
  void SetPatterns(AccessPatterns patterns) LOCKS_EXCLUDED(mutex_);
  void Revoke() LOCKS_EXCLUDED(mutex_);

 private:
  const std::string name_;
  const std::string secret_;

  mutable port::Mutex mutex_;  // The last to be taken.
  AccessPatterns patterns_ GUARDED_BY(mutex_);
  bool revoked_ GUARDED_BY(mutex_) = false;
};

// A client that has proved itself with a secret of its own; null stands for the cluster's.
using ClientRights = std::shared_ptr<const AccessRights>;

// Thread-safe.
class AccessList {
 public:
  // *list is a new one.
  static Status Parse(const std::string& text, const std::string& path, AccessList* list);
  static Status Read(const std::string& path, std::shared_ptr<AccessList>* list);

  // Null: there is no such client.
  ClientRights Find(const std::string& name) const LOCKS_EXCLUDED(mutex_);
  size_t size() const LOCKS_EXCLUDED(mutex_);

  // Says what `next` says from now on, which nobody else has: a client whose secret has stayed goes
  // on with the rights that it has by its new line; others of before are revoked.
  void Replace(const AccessList& next) LOCKS_EXCLUDED(mutex_);

 private:
  using Clients = std::map<std::string, std::shared_ptr<AccessRights>>;
  Clients clients() const LOCKS_EXCLUDED(mutex_);

  mutable port::Mutex mutex_;
  Clients clients_ GUARDED_BY(mutex_);
};

// Whether `text` is what `pattern` says.
bool MatchesPattern(std::string_view text, std::string_view pattern);

}  // namespace dlsm
