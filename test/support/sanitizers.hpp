#pragma once
/// UNDER_ADDRESS_SANITIZER and UNDER_THREAD_SANITIZER are defined where these watch the program.
/// g++ says it by macros, clang by features.

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#endif

/// Defined where a child of fork may allocate and start threads although its parent had threads. A
/// sanitizer's runtime copies its locks as they are: the child waits for ever for one that another
/// thread of the parent held.
#if !defined(UNDER_ADDRESS_SANITIZER) && !defined(UNDER_THREAD_SANITIZER)
#define FORKS_BESIDE_THREADS 1
#endif
