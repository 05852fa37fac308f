// Who may use which databases of a memory node: clients with a secret of their own.
//
// A file, readable by its owner only, with a line for each client; `#` starts a comment:
//
//   NAME SECRET [own=PATTERN,...] [read=PATTERN,...]
//
// `own`: open, write, read and destroy; `read`: follow. A `*` in a pattern stands for any bytes.
// What decides is the database's name as users know it: without what shards and ranges add behind a
// `#`.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dLSM/status.h"

namespace dlsm {

inline constexpr size_t kAccessNameBytesMax = 64;

// Of one client. Constant.
class AccessRights {
 public:
  AccessRights(std::string name, std::string secret, std::vector<std::string> own,
               std::vector<std::string> read)
      : name_(std::move(name)),
        secret_(std::move(secret)),
        own_(std::move(own)),
        read_(std::move(read)) {}

  const std::string& name() const { return name_; }
  const std::string& secret() const { return secret_; }
  // `database` is a name as memory nodes know it.
  bool MayOwn(std::string_view database) const;
  bool MayRead(std::string_view database) const;  // Or own.

 private:
  const std::string name_;
  const std::string secret_;
  const std::vector<std::string> own_;
  const std::vector<std::string> read_;
};

// Constant once read.
class AccessList {
 public:
  static Status Parse(const std::string& text, const std::string& path, AccessList* list);
  static Status Read(const std::string& path, std::shared_ptr<const AccessList>* list);

  // Null: there is no such client.
  std::shared_ptr<const AccessRights> Find(const std::string& name) const;
  size_t size() const { return clients_.size(); }

 private:
  std::map<std::string, std::shared_ptr<const AccessRights>> clients_;
};

// Whether `text` is what `pattern` says.
bool MatchesPattern(std::string_view text, std::string_view pattern);

}  // namespace dlsm
