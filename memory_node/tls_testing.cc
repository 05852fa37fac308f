#include "memory_node/tls_testing.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <memory>

namespace dlsm {
namespace {

struct Deleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(FILE* file) const { std::fclose(file); }
};
template <typename T>
using Handle = std::unique_ptr<T, Deleter>;

Handle<FILE> Open(const std::string& path, const char* mode) {
  Handle<FILE> file(std::fopen(path.c_str(), mode));
  EXPECT_NE(file, nullptr) << path;
  return file;
}

void AddExtension(X509* certificate, int kind, const std::string& value) {
  const Handle<X509_EXTENSION> made(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()));
  ASSERT_NE(made, nullptr) << value;
  ASSERT_EQ(X509_add_ext(certificate, made.get(), -1), 1);
}

}  // namespace

TestCertificates::TestCertificates() : folder_(testing::TempDir() + "/dlsm-tls-XXXXXX") {
  EXPECT_NE(mkdtemp(folder_.data()), nullptr) << folder_;
}

TestCertificates::~TestCertificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void TestCertificates::Make(const std::string& name, const std::string& issuer,
                            const std::string& alternatives, long seconds) {
  const Handle<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Handle<X509> made(X509_new());
  ASSERT_TRUE(key != nullptr && made != nullptr);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), seconds < 0 ? 2 * seconds : -60);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), seconds);
  X509_set_pubkey(made.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  Handle<X509> authority;
  Handle<EVP_PKEY> authority_key;
  if (!issuer.empty()) {
    authority.reset(PEM_read_X509(Open(Certificate(issuer), "r").get(), nullptr, nullptr, nullptr));
    authority_key.reset(
        PEM_read_PrivateKey(Open(Key(issuer), "r").get(), nullptr, nullptr, nullptr));
  } else {
    AddExtension(made.get(), NID_basic_constraints, "critical,CA:TRUE");
  }
  const X509* const signer = issuer.empty() ? made.get() : authority.get();
  X509_set_issuer_name(made.get(), X509_get_subject_name(signer));
  if (!alternatives.empty()) AddExtension(made.get(), NID_subject_alt_name, alternatives);
  ASSERT_GT(X509_sign(made.get(), issuer.empty() ? key.get() : authority_key.get(), EVP_sha256()),
            0);
  ASSERT_EQ(PEM_write_X509(Open(Certificate(name), "w").get(), made.get()), 1);
  ASSERT_EQ(PEM_write_PrivateKey(Open(Key(name), "w").get(), key.get(), nullptr, nullptr, 0,
                                 nullptr, nullptr),
            1);
  ASSERT_EQ(chmod(Key(name).c_str(), 0600), 0);
}

}  // namespace dlsm
