/* libzmq's threads block all signals. The kernel kills a process if a thread that blocks SIGSYS
 * makes a call that the filter refuses, instead of letting the call fail (os/sandbox_refused.c). So
 * this function takes the place of libc's, also for libzmq, and never blocks SIGSYS. */
#include <errno.h>
#include <signal.h>

#ifdef HAVE_ZMQ
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t some;

	if (set != NULL && how != SIG_UNBLOCK) {
		some = *set;
		sigdelset(&some, SIGSYS);
		set = &some;
	}
	/* in Linux it changes the mask of the calling thread only */
	return sigprocmask(how, set, old) == 0 ? 0 : errno;
}
#endif
