// Certificates for tests, made on the spot: files in a folder that goes with the object.
#pragma once

#include <string>

namespace dlsm {

class TestCertificates {
 public:
  TestCertificates();
  ~TestCertificates();
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  // Makes NAME.crt and NAME.key, for the hosts that `alternatives` names in OpenSSL's way
  // ("IP:127.0.0.1,DNS:localhost"), signed by `issuer`; empty: by itself, as an authority. Good for
  // `seconds` from now on, and not any more where that is negative.
  void Make(const std::string& name, const std::string& issuer, const std::string& alternatives,
            long seconds = 3600);

  std::string Certificate(const std::string& name) const { return folder_ + "/" + name + ".crt"; }
  std::string Key(const std::string& name) const { return folder_ + "/" + name + ".key"; }

 private:
  std::string folder_;
};

}  // namespace dlsm
