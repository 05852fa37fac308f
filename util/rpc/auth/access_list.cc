#include "util/rpc/auth/access_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "util/rpc/messages/database_name.h"
#include "util/secret_file.h"
#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;
constexpr size_t kPatternsMax = 256;  // Each transfer of the client may have to look at all.
constexpr mode_t kOthers = 077;

// No secret is part of a message.
Status Wrong(const std::string& path, size_t line, const std::string& what) {
  return Status::InvalidArgument(fmt::format("{}:{}: {}", path, line, what),
                                 "a line is NAME SECRET [own=PATTERN,...] [read=PATTERN,...]");
}

bool GetPatterns(std::string_view word, std::string_view key, std::vector<std::string>* patterns) {
  if (word.substr(0, key.size()) != key) return false;
  word.remove_prefix(key.size());
  while (!word.empty()) {
    const size_t end = std::min(word.find(','), word.size());
    if (end > 0) patterns->emplace_back(word.substr(0, end));
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return true;
}

// `name` is as users know it.
bool MatchesAny(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesPattern(name, pattern); });
}

}  // namespace

bool MatchesPattern(std::string_view text, std::string_view pattern) {
  // Where to go on, with one more byte for the last star, when what follows it does not match.
  size_t star = std::string_view::npos;
  size_t taken = 0;
  size_t at = 0;
  size_t in_pattern = 0;
  while (at < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      taken = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == text[at]) {
      ++in_pattern;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

bool AccessRights::MayOwn(std::string_view database) const {
  const port::MutexLock lock(mutex_);
  return MatchesAny(NameOfUsers(database), patterns_.own);
}

bool AccessRights::MayRead(std::string_view database) const {
  const std::string_view name = NameOfUsers(database);
  const port::MutexLock lock(mutex_);
  return MatchesAny(name, patterns_.own) || MatchesAny(name, patterns_.read);
}

bool AccessRights::revoked() const {
  const port::MutexLock lock(mutex_);
  return revoked_;
}

AccessPatterns AccessRights::patterns() const {
  const port::MutexLock lock(mutex_);
  return patterns_;
}

void AccessRights::SetPatterns(AccessPatterns patterns) {
  const port::MutexLock lock(mutex_);
  patterns_ = std::move(patterns);
}

void AccessRights::Revoke() {
  const port::MutexLock lock(mutex_);
  patterns_ = {};
  revoked_ = true;
}

Status AccessList::Parse(const std::string& text, const std::string& path, AccessList* list) {
  std::istringstream lines(text);
  std::string line;
  const port::MutexLock lock(list->mutex_);
  for (size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string name;
    std::string secret;
    if (!(words >> name) || name[0] == '#') continue;
    if (name.size() > kAccessNameBytesMax) return Wrong(path, number, "the name is too long");
    if (!(words >> secret)) return Wrong(path, number, "there is no secret");
    if (secret.size() < kSecretBytesMin || secret.size() > kSecretBytesMax) {
      return Wrong(path, number,
                   fmt::format("the secret has {} characters, not {} to {}; make one with: "
                               "openssl rand -hex 32",
                               secret.size(), kSecretBytesMin, kSecretBytesMax));
    }
    AccessPatterns patterns;
    std::string word;
    while (words >> word && word[0] != '#') {
      if (!GetPatterns(word, "own=", &patterns.own) &&
          !GetPatterns(word, "read=", &patterns.read)) {
        return Wrong(path, number, "there is something else than own= and read=");
      }
    }
    if (patterns.own.size() + patterns.read.size() > kPatternsMax) {
      return Wrong(path, number, fmt::format("there are more than {} patterns", kPatternsMax));
    }
    auto rights = std::make_shared<AccessRights>(name, secret, std::move(patterns));
    if (!list->clients_.emplace(name, std::move(rights)).second) {
      return Wrong(path, number, fmt::format("there is a line for '{}' before", name));
    }
  }
  return Status::OK();
}

Status AccessList::Read(const std::string& path, std::shared_ptr<AccessList>* list) {
  SmallFile file;
  DLSM_RETURN_IF_ERROR(ReadSmallFile("access file", path, kFileBytesMax, &file));
  if ((file.mode & kOthers) != 0) {
    return Status::InvalidArgument(
        fmt::format("the access file {0} is open to others than its owner (mode {1:04o}); "
                    "run: chmod 600 {0}",
                    path, file.mode));
  }
  auto made = std::make_shared<AccessList>();
  DLSM_RETURN_IF_ERROR(Parse(file.contents, path, made.get()));
  *list = std::move(made);
  return Status::OK();
}

ClientRights AccessList::Find(const std::string& name) const {
  const port::MutexLock lock(mutex_);
  const auto found = clients_.find(name);
  return found == clients_.end() ? nullptr : found->second;
}

size_t AccessList::size() const {
  const port::MutexLock lock(mutex_);
  return clients_.size();
}

AccessList::Clients AccessList::clients() const {
  const port::MutexLock lock(mutex_);
  return clients_;
}

void AccessList::Replace(const AccessList& next) {
  Clients clients = next.clients();
  const port::MutexLock lock(mutex_);
  for (const auto& [name, before] : clients_) {
    const auto now = clients.find(name);
    if (now == clients.end() || now->second->secret() != before->secret()) {
      before->Revoke();
    } else {
      before->SetPatterns(now->second->patterns());
      now->second = before;
    }
  }
  clients_ = std::move(clients);
}

}  // namespace dlsm
