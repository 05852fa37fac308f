#include "db/serve/acl.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "port/error_text.h"
#include "util/file_descriptor.h"
#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm::serve {
namespace {

constexpr size_t kFileBytesMax = size_t{4} << 20;

AclRules RulesOfDefault(const std::string& password) {
  AclRules rules;
  for (const char* rule : {"on", "~*", "&*", "+@all"}) rules.Apply(rule);
  rules.Apply(password.empty() ? "nopass" : ">" + password);
  return rules;
}

Status ParseLine(const std::string& line, std::map<std::string, AclRules>* users) {
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return Status::OK();
  std::string name;
  if (word != "user" || !(words >> name)) {
    return Status::InvalidArgument("a line begins with \"user\" and a name");
  }
  const auto [user, is_new] = users->try_emplace(name);
  if (!is_new) return Status::InvalidArgument("duplicate user '" + name + "'");
  while (words >> word) {
    const std::string wrong = user->second.Apply(word);
    // The rule may be a password, which no log is to show.
    if (!wrong.empty()) return Status::InvalidArgument(fmt::format("user '{}': {}", name, wrong));
  }
  return Status::OK();
}

Status ParseFile(const std::string& path, std::map<std::string, AclRules>* users) {
  constexpr mode_t kOthers = 077;
  SmallFile file;
  DLSM_RETURN_IF_ERROR(ReadSmallFile("ACL file", path, kFileBytesMax, &file));
  if ((file.mode & kOthers) != 0) {
    return Status::InvalidArgument(
        fmt::format("the ACL file {0} is open to others than its owner (mode {1:04o}); run: chmod "
                    "600 {0}",
                    path, file.mode));
  }
  std::istringstream lines(file.contents);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const Status parsed = ParseLine(line, users);
    if (!parsed.ok()) {
      return Status::InvalidArgument(
          fmt::format("{}:{}: {}", path, number, parsed.message().ToStringView()));
    }
  }
  return Status::OK();
}

// Writes a new file and puts it in the place of the one before.
Status ReplaceFile(const std::string& path, const std::string& contents) {
  const auto failed = [&path](const char* what) {
    return Status::IOError(fmt::format("{} {}", what, path), port::ErrorText(errno));
  };
  std::string name = path + ".XXXXXX";
  const FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));  // Its owner's only.
  if (!file.valid()) return failed("cannot make a file beside");
  size_t written = 0;
  while (written < contents.size()) {
    const ssize_t count = write(file.get(), contents.data() + written, contents.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  if (written == contents.size() && fsync(file.get()) == 0 &&
      std::rename(name.c_str(), path.c_str()) == 0) {
    return Status::OK();
  }
  const Status status = failed("cannot write");
  unlink(name.c_str());
  return status;
}

}  // namespace

bool IsUserName(const Slice& name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return c == ' ' || c == '\0' || (c >= '\t' && c <= '\r');
  });
}

Acl::Acl() {
  const port::MutexLock lock(mutex_);
  PutLocked(kDefaultUser, RulesOfDefault(""));
}

void Acl::PutLocked(const std::string& name, const AclRules& rules) {
  Entry& entry = users_[name];
  if (entry.permissions == nullptr) entry.permissions = std::make_shared<UserPermissions>(name);
  entry.rules = rules;
  entry.permissions->Set(rules);
}

void Acl::SetPassword(const std::string& password) {
  const port::MutexLock lock(mutex_);
  const std::string before = std::exchange(password_, password);
  if (before == password || file_has_default_) return;
  AclRules rules = users_[kDefaultUser].rules;
  if (!before.empty()) rules.Apply("<" + before);  // Possibly it was taken away before.
  rules.Apply(password.empty() ? "nopass" : ">" + password);
  PutLocked(kDefaultUser, rules);
}

Acl::User Acl::DefaultUser() const { return PermissionsOf(kDefaultUser); }

bool Acl::DefaultIsOpen() const {
  const port::MutexLock lock(mutex_);
  const AclRules& rules = users_.at(kDefaultUser).rules;
  return rules.enabled && rules.any_password;
}

Acl::User Acl::Authenticate(const Slice& name, const Slice& password) const {
  const port::MutexLock lock(mutex_);
  const auto found = users_.find(name.ToString());
  // An unknown name takes as long as a wrong password.
  static const AclRules kNobody;
  const AclRules& rules = found == users_.end() ? kNobody : found->second.rules;
  const bool accepted = rules.Accepts(password);
  return accepted && rules.enabled ? found->second.permissions : nullptr;
}

std::unique_ptr<AclRules> Acl::Find(const std::string& name) const {
  const port::MutexLock lock(mutex_);
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : std::make_unique<AclRules>(found->second.rules);
}

Acl::User Acl::PermissionsOf(const std::string& name) const {
  const port::MutexLock lock(mutex_);
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : found->second.permissions;
}

std::map<std::string, AclRules> Acl::All() const {
  const port::MutexLock lock(mutex_);
  std::map<std::string, AclRules> all;
  for (const auto& [name, entry] : users_) all.emplace(name, entry.rules);
  return all;
}

std::string Acl::SetUser(const std::string& name, const std::vector<Slice>& rules) {
  const port::MutexLock lock(mutex_);
  const auto found = users_.find(name);
  AclRules changed = found == users_.end() ? AclRules() : found->second.rules;
  for (const Slice& rule : rules) {
    const std::string wrong = changed.Apply(rule);
    if (!wrong.empty()) {
      return fmt::format("ERR Error in ACL SETUSER modifier '{}': {}", rule.ToStringView(), wrong);
    }
  }
  PutLocked(name, changed);
  return "";
}

bool Acl::Delete(const std::string& name) {
  const port::MutexLock lock(mutex_);
  const auto found = users_.find(name);
  if (found == users_.end()) return false;
  found->second.permissions->SetGone();
  users_.erase(found);
  return true;
}

Status Acl::Load(std::vector<std::string>* cut_off) {
  std::map<std::string, AclRules> users;
  DLSM_RETURN_IF_ERROR(ParseFile(file_, &users));
  const port::MutexLock lock(mutex_);
  file_has_default_ = users.contains(kDefaultUser);
  if (!file_has_default_) users[kDefaultUser] = RulesOfDefault(password_);
  for (auto entry = users_.begin(); entry != users_.end();) {
    const auto& [name, before] = *entry;
    const auto now = users.find(name);
    if (name == kDefaultUser || (now != users.end() && now->second == before.rules)) {
      ++entry;
      continue;
    }
    before.permissions->SetGone();
    cut_off->push_back(name);
    entry = users_.erase(entry);
  }
  for (const auto& [name, rules] : users) PutLocked(name, rules);
  return Status::OK();
}

Status Acl::Save() const {
  std::string contents;
  for (const auto& [name, rules] : All()) {
    contents += fmt::format("user {} {}\n", name, rules.Describe());
  }
  return ReplaceFile(file_, contents);
}

}  // namespace dlsm::serve
