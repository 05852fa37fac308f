// Names for clang's thread safety annotations. They compile to nothing elsewhere; the clang build
// treats every violation as an error.
#pragma once

#if defined(__clang__)
#define DLSM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define DLSM_THREAD_ANNOTATION(x)
#endif

#ifndef CAPABILITY
#define CAPABILITY(x) DLSM_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY DLSM_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) DLSM_THREAD_ANNOTATION(guarded_by(x))
#define PT_GUARDED_BY(x) DLSM_THREAD_ANNOTATION(pt_guarded_by(x))
#define EXCLUSIVE_LOCKS_REQUIRED(...) DLSM_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define LOCKS_EXCLUDED(...) DLSM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define EXCLUSIVE_LOCK_FUNCTION(...) DLSM_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define EXCLUSIVE_TRYLOCK_FUNCTION(...) DLSM_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define UNLOCK_FUNCTION(...) DLSM_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) DLSM_THREAD_ANNOTATION(assert_capability(x))
#define NO_THREAD_SAFETY_ANALYSIS DLSM_THREAD_ANNOTATION(no_thread_safety_analysis)
#endif
