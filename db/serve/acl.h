// The users of a server, and the file that they are kept in.
//
// The file is Redis' aclfile: lines of "user NAME RULE...". The user "default" is the one that a
// connection begins as. Unless the file has it, its password is the server's (--password_file).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/serve/acl_rules.h"
#include "db/serve/user_permissions.h"
#include "port/mutex.h"

namespace dlsm::serve {

inline constexpr const char* kDefaultUser = "default";

// Thread-safe.
class Acl {
 public:
  using User = std::shared_ptr<const UserPermissions>;

  // The only user is the default one, which may do everything.
  Acl();

  // The password of the default user; "": it needs none. Another one takes the place of the one
  // before. A default user that the file has keeps what the file says.
  void SetPassword(const std::string& password) LOCKS_EXCLUDED(mutex_);
  // Load() and Save() use this file from now on. Before any other thread knows this.
  void set_file(const std::string& file) { file_ = file; }
  bool has_file() const { return !file_.empty(); }

  User DefaultUser() const LOCKS_EXCLUDED(mutex_);
  // Whether a connection begins with what the default user may do, without a password.
  bool DefaultIsOpen() const LOCKS_EXCLUDED(mutex_);
  // Null if the name, the password or both are wrong, or the user is off.
  User Authenticate(const Slice& name, const Slice& password) const LOCKS_EXCLUDED(mutex_);

  // Null if there is no such user.
  std::unique_ptr<AclRules> Find(const std::string& name) const LOCKS_EXCLUDED(mutex_);
  // Where there is no such user, null.
  User PermissionsOf(const std::string& name) const LOCKS_EXCLUDED(mutex_);
  std::map<std::string, AclRules> All() const LOCKS_EXCLUDED(mutex_);

  // Makes a user, or changes it: by all rules or, if one of them is wrong, by none. Returns an
  // error text, or "".
  std::string SetUser(const std::string& name, const std::vector<Slice>& rules)
      LOCKS_EXCLUDED(mutex_);
  // Returns false if there is no such user. The sessions of the user are to be cut off.
  bool Delete(const std::string& name) LOCKS_EXCLUDED(mutex_);

  // Takes the users from the file. InvalidArgument, and nothing has changed, if the file cannot be
  // read or a line of it is wrong. *cut_off: users that are no more, or may do something else now.
  Status Load(std::vector<std::string>* cut_off) LOCKS_EXCLUDED(mutex_);
  // Writes all users to the file, as a whole or not at all.
  Status Save() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    AclRules rules;
    std::shared_ptr<UserPermissions> permissions;
  };

  void PutLocked(const std::string& name, const AclRules& rules) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string file_;

  mutable port::Mutex mutex_;
  std::map<std::string, Entry> users_ GUARDED_BY(mutex_);
  std::string password_ GUARDED_BY(mutex_);  // The server's.
  bool file_has_default_ GUARDED_BY(mutex_) = false;
};

// Returns false for names that a file cannot have.
bool IsUserName(const Slice& name);

}  // namespace dlsm::serve
