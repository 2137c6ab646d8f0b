/* test_body.c - the pages of a body: tables computed by hand, pairs of bodies that must be equal or
 * different, and every body of tests/data/bodies against the reference (ref.h). */
#include "tests/unit/prompt/bodies.h"

#define S10	"0123456789"
#define S50	S10 S10 S10 S10 S10
#define S64	S50 S10 "0123"
#define BILL	"x-anthropic-billing-header: cc_version=1; cch=0a1b2;"

static void test_paths(void **state)
{
	static const struct {
		const char *path;
		enum prompt_api api;
	} cases[] = {
		{ "/v1/chat/completions", API_CHAT }, { "/chat/completions", API_CHAT },
		{ "chat/completions", API_CHAT }, { "/openai/v1/chat/completions/", API_CHAT },
		{ "/openai/deployments/x/chat/completions?api-version=1", API_CHAT },
		{ "/v1/completions", API_COMPLETIONS }, { "/v1/completions?a=/v1/messages", API_COMPLETIONS },
		{ "/v1/nochat/completions", API_COMPLETIONS }, { "/xchat/completions", API_COMPLETIONS },
		{ "/v1/responses", API_RESPONSES }, { "/v1/messages", API_MESSAGES },
		{ "/v1/messages#x", API_MESSAGES }, { "/v1/embeddings", API_EMBEDDINGS },
		{ "/generate", API_GENERATE }, { "/a/b/generate//", API_GENERATE },
		{ "/v1beta/models/g-2:generateContent", API_CONTENTS },
		{ "/v1/models/a/b:streamGenerateContent?alt=sse", API_CONTENTS },
		{ "/v1beta/models/g:countTokens", API_NONE }, { "/generateContent", API_NONE },
		{ "/v1/messages/count_tokens", API_NONE }, { "/v1/models", API_NONE }, { "/", API_NONE },
		{ "", API_NONE }, { "?generate", API_NONE }, { "/regenerate", API_NONE },
		{ "/v1/Messages", API_NONE }, { "/v1/responses/x/cancel", API_NONE },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (prompt_api_of_path(span_str(cases[i].path)) != cases[i].api)
			fail_msg("wrong API for path %s", cases[i].path);
	assert_int_equal(prompt_api_of_path(span_of(NULL, 0)), API_NONE);
	assert_string_equal(prompt_api_name(API_NONE), "none");
	assert_string_equal(prompt_api_name(API_MESSAGES), "messages");
}

/* The number of pages, computed by hand: system/tools/messages, leading pages, units. */
static void test_counts(void **state)
{
	static const struct {
		enum prompt_api api;
		const char *pages;
		unsigned lead, units;
		const char *body;
	} cases[] = {
		{ API_CHAT, "0/0/1", 0, 2, "{'messages':[{'role':'user','content':'hi'}]}" },
		{ API_CHAT, "0/0/1", 0, 63,
		    "{'messages':[{'role':'user','content':'" S50 S10 "012'}]}" },
		/* a text that fills its pages: one more page for role and name */
		{ API_CHAT, "0/0/2", 0, 64, "{'messages':[{'role':'user','content':'" S64 "'}]}" },
		{ API_CHAT, "0/0/2", 0, 65, "{'messages':[{'role':'user','content':'" S64 "4'}]}" },
		{ API_CHAT, "0/0/3", 2, 4,
		    "{'messages':[{'role':'system','content':'a'},{'content':'b',"
		    "'role':'developer'},{'role':'user','content':'cd'}]}" },
		{ API_CHAT, "0/0/3", 1, 3,
		    "{'messages':[{'role':'system','content':'a'},{'role':'user',"
		    "'content':'b'},{'role':'system','content':'c'}]}" },
		{ API_CHAT, "0/0/1", 0, 0, "{'messages':[{}]}" },
		{ API_CHAT, "0/0/0", 0, 0, "{'messages':[]}" },
		{ API_CHAT, "0/0/0", 0, 0, "{'messages':'text'}" },
		{ API_CHAT, "0/0/0", 0, 0, "{'prompt':'text','input':'text','system':'no'}" },
		/* 10 + page + 5: a padded page, the image, the last page */
		{ API_CHAT, "0/0/3", 0, 79,
		    "{'messages':[{'role':'user','content':[{'type':'text','text':'" S10
		    "'},{'type':'image_url','image_url':{'url':'u'}},{'text':'abcde'}]}]}" },
		{ API_CHAT, "0/0/3", 0, 128,
		    "{'messages':[{'content':[{'image_url':'u'},{'image_url':'u'}]}]}" },
		/* two texts and the byte between them */
		{ API_CHAT, "0/0/1", 0, 5,
		    "{'messages':[{'content':[{'text':'ab'},{'text':'cd'}]}]}" },
		{ API_CHAT, "0/0/2", 0, 65,
		    "{'messages':[{'content':[{'text':'" S50 S10 "'},{'text':'abcd'}]}]}" },
		/* arguments and the call's name (9 bytes) */
		{ API_CHAT, "0/0/1", 0, 11,
		    "{'messages':[{'role':'assistant',"
		    "'tool_calls':[{'function':{'name':'f','arguments':'{}'}}]}]}" },
		{ API_CHAT, "0/0/3", 0, 137,
		    "{'messages':[{'content':'" S64
		    "','tool_calls':[{'function':{'name':'f','arguments':'" S64 "'}}]}]}" },
		{ API_CHAT, "0/0/4", 0, 201,
		    "{'messages':[{'reasoning':'" S64 "','content':'" S64
		    "','tool_calls':[{'function':{'name':'f','arguments':'" S64 "'}}]}]}" },
		/* [{"a":1}] in compact form, with bytes 0xff for quotes */
		{ API_CHAT, "0/1/1", 0, 10,
		    "{'tools':[ {'a' : 1} ],'messages':[{'content':'x'}]}" },
		{ API_CHAT, "0/0/1", 0, 1,
		    "{'tools':[],'functions':{},'documents':null,"
		    "'messages':[{'content':'x'}]}" },
		{ API_CHAT, "0/3/1", 0, 28,
		    "{'documents':[{'a':1}],'functions':[{'a':1}],'tools':[{'a':1}],"
		    "'messages':[{'content':'x'}]}" },
		{ API_COMPLETIONS, "0/0/1", 0, 2, "{'prompt':'hi'}" },
		{ API_COMPLETIONS, "0/0/1", 0, 64, "{'prompt':'" S64 "'}" },
		{ API_COMPLETIONS, "0/0/2", 0, 65, "{'prompt':'" S64 "x'}" },
		{ API_COMPLETIONS, "0/0/3", 0, 66, "{'prompt':['" S64 "','','a','b']}" },
		{ API_COMPLETIONS, "0/0/0", 0, 0, "{'prompt':''}" },
		{ API_COMPLETIONS, "0/0/0", 0, 0, "{'prompt':[]}" },
		{ API_COMPLETIONS, "0/0/0", 0, 0, "{'prompt':null}" },
		{ API_COMPLETIONS, "0/0/0", 0, 0, "{'messages':[{'content':'x'}],'tools':[1]}" },
		{ API_COMPLETIONS, "0/0/0", 0, 15,
		    "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}" },
		{ API_COMPLETIONS, "0/0/1", 0, 17,
		    "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,"
		    "4294967295]}" },
		{ API_COMPLETIONS, "0/0/2", 0, 35,
		    "{'prompt':[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],[],"
		    "[1],[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]]}" },
		{ API_EMBEDDINGS, "0/0/1", 0, 1, "{'input':'x'}" },
		{ API_EMBEDDINGS, "0/0/1", 0, 1, "{'messages':[{'role':'user','content':'x'}]}" },
		{ API_GENERATE, "0/0/1", 0, 1, "{'text':'x'}" },
		{ API_GENERATE, "0/0/0", 0, 2, "{'text':'x','input_ids':[1,2]}" },
		{ API_GENERATE, "0/0/1", 0, 1, "{'input_ids':[1,2],'text':'x'}" },
		{ API_GENERATE, "0/0/1", 0, 1, "{'text':'x','input_ids':null}" },
		{ API_RESPONSES, "0/0/1", 0, 2, "{'input':'hi'}" },
		{ API_CONTENTS, "1/0/2", 0, 4,
		    "{'contents':[{'role':'user','parts':[{'text':'ab'}]},"
		    "{'role':'model','parts':[{'text':'c'}]}],'systemInstruction':{'role':'x',"
		    "'parts':[{'text':'d'}]}}" },
		{ API_CONTENTS, "1/0/1", 0, 3,
		    "{'system_instruction':'ab','contents':[{'parts':[{'text':'c'}]}"
		    "],'generationConfig':{'maxOutputTokens':2}}" },
		{ API_CONTENTS, "0/0/0", 0, 0, "{'contents':null,'messages':[{'content':'x'}]}" },
		{ API_RESPONSES, "1/0/2", 1, 4,
		    "{'instructions':'a','input':[{'role':'developer',"
		    "'content':'b'},{'type':'message','role':'user','content':[{'type':'input_text','text':'cd'}]"
		    "}]}" },
		{ API_RESPONSES, "0/0/2", 0, 4,
		    "{'input':[{'type':'function_call','name':'f','arguments':'{}',"
		    "'call_id':'1'},{'type':'function_call_output','call_id':'1','output':'ok'}]}" },
		{ API_MESSAGES, "1/0/1", 0, 3,
		    "{'system':'a','messages':[{'role':'user','content':'bc'}]}" },
		{ API_MESSAGES, "1/0/1", 0, 5,
		    "{'messages':[{'role':'user','content':'bc'}],"
		    "'system':[{'type':'text','text':'a'},{'text':'b'}]}" },
		{ API_MESSAGES, "0/0/1", 0, 0, "{'messages':[{'role':'user'}],'system':''}" },
		{ API_MESSAGES, "0/0/1", 0, 0, "{'messages':[{'role':'user'}],'system':[]}" },
		/* mark, {"a":1}, mark and name: 1 + 1 + 7 + 9 */
		{ API_MESSAGES, "0/0/1", 0, 18,
		    "{'messages':[{'content':[{'type':'tool_use','id':'1',"
		    "'name':'f','input':{ 'a': 1 }}]}]}" },
		{ API_MESSAGES, "0/0/3", 0, 69,
		    "{'messages':[{'content':[{'type':'tool_result',"
		    "'content':[{'type':'text','text':'ab'},{'type':'image','source':{'type':'url','url':'u'}},"
		    "{'text':'c'}]}]}]}" },
		/* what Claude Code puts before its system prompt does not count */
		{ API_MESSAGES, "1/0/1", 0, 3,
		    "{'system':[{'type':'text','text':'" BILL "'},{'type':'text','text':'abc'}],"
		    "'messages':[{'role':'user'}]}" },
		{ API_MESSAGES, "0/0/1", 0, 0,
		    "{'messages':[{'role':'user'}],'system':[{'text':'" BILL "\\nabc'}]}" },
		{ API_MESSAGES, "1/0/1", 0, 3, "{'system':'" BILL "\\nabc','messages':[{'role':'user'}]}" },
		{ API_CHAT, "0/0/1", 1, 3,
		    "{'messages':[{'role':'system','content':[{'text':'" BILL "'},{'text':'abc'}]}]}" },
		{ API_CHAT, "0/0/1", 1, 3, "{'messages':[{'role':'system','content':'" BILL "\\nabc'}]}" },
		{ API_CHAT, "0/0/1", 1, 0, "{'messages':[{'role':'system','content':'" BILL "\\n'}]}" },
		{ API_CHAT, "0/0/1", 1, 25,
		    "{'messages':[{'role':'system','content':'x-anthropic-billing-heade'}]}" },
		{ API_CHAT, "0/0/1", 0, 26,
		    "{'messages':[{'role':'user','content':'x-anthropic-billing-header'}]}" },
		{ API_CONTENTS, "1/0/1", 0, 26,
		    "{'systemInstruction':'x-anthropic-billing-header','contents':[{'role':'user'}]}" },
		{ API_COMPLETIONS, "0/0/1", 0, 26, "{'prompt':'x-anthropic-billing-header'}" },
		{ API_NONE, "0/0/0", 0, 0,
		    "{'messages':[{'content':'x'}],'prompt':'x','input':'x','text':'x'}" },
		{ API_CHAT, "0/0/0", 0, 0, "[{'messages':[{'content':'x'}]}]" },
		{ API_CHAT, "0/0/0", 0, 0, "'messages'" },
	};
	struct body *b = body_make();
	char text[4096], pages[64], *q;
	const struct prompt *p;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s", cases[i].body);
		for (q = text; *q != '\0'; q++)
			if (*q == '\'')
				*q = '"';
		p = feed_text(b, cases[i].api, text);
		assert_int_equal(p->json, JSON_DONE);
		snprintf(pages, sizeof(pages), "%zu/%zu/%zu", p->system.n, p->tools.n, p->messages.n);
		if (strcmp(pages, cases[i].pages) != 0 || p->n_leading != cases[i].lead ||
		    p->n_units != cases[i].units)
			fail_msg("%s\ngot %s, lead %u, units %u", text, pages, p->n_leading,
				 (unsigned)p->n_units);
		check_ref(p, text, strlen(text));
	}
	body_free(b);
}

/* ---- one body against another ---------------------------------------------------------------- */

enum { SAME, OTHER };

static const struct pair {
	enum prompt_api api;
	int want;
	const char *a, *b;
} pairs[] = {
	/* two forms of the same prompt */
	{ API_CHAT, SAME, "{'messages':[{'role':'user','content':'abc'}]}",
	    "{'messages':[{'role':'user','content':[{'type':'text','text':'abc'}]}]}" },
	{ API_CHAT, SAME, "{'messages':[{'role':'user','content':'abc'}]}",
	    "{'messages':[{'content':[{'text':'abc','cache_control':{'type':'ephemeral'}}],'role':'user',"
	    "'id':'m1'}]}" },
	{ API_CHAT, SAME, "{'messages':[{'role':'user','content':'aé\\n'}]}",
	    "{ 'messages' : [ { 'role':'\\u0075ser', 'content':'\\u0061\\u00e9\\u000a' } ] }" },
	{ API_CHAT, SAME,
	    "{'messages':[{'role':'assistant','content':null,'tool_calls':[{'id':'1',"
	    "'function':{'name':'f','arguments':'{}'}}]}]}",
	    "{'messages':[{'tool_calls':[{'function':{'arguments':'{}','name':'f'},'id':'2',"
	    "'type':'function'}],'role':'assistant'}]}" },
	{ API_CHAT, SAME, "{'messages':[{'role':'tool','content':'x','tool_call_id':'1'}]}",
	    "{'messages':[{'role':'tool','content':'x','tool_call_id':'2'}]}" },
	{ API_CHAT, SAME,
	    "{'messages':[{'role':'a','reasoning_content':'why','content':'x',"
	    "'refusal':null}]}",
	    "{'messages':[{'role':'a','content':'x','reasoning':'why','reasoning_content':null}]}" },
	{ API_CHAT, SAME,
	    "{'messages':[{'role':'a','content':'x','tool_calls':null,"
	    "'function_call':null,'name':null}]}",
	    "{'messages':[{'role':'a','content':'x'}]}" },
	{ API_CHAT, SAME, "{'messages':[{'content':[{'image_url':'U'}]}]}",
	    "{'messages':[{'content':[{'type':'image_url','image_url':{'url':'U'}}]}]}" },
	{ API_CHAT, SAME, "{'messages':[{'content':[{'image_url':{'url':'U','detail':'low'}}]}]}",
	    "{'messages':[{'content':[{'image_url':{'detail':'low','cache_control':{},'url':'\\u0055'}}]"
	    "}]}" },
	{ API_CHAT, SAME,
	    "{'messages':[],'tools':[{'name':'f','cache_control':{'type':'ephemeral'}}]}",
	    "{'messages':[],'tools':[ {'name' : '\\u0066'} ]}" },
	{ API_CHAT, SAME,
	    "{'messages':[],'tools':[{'cache_control':1,'name':'f','cache_control':[2]}]}",
	    "{'messages':[],'tools':[{'name':'f'}]}" },
	{ API_CHAT, SAME, "{'tools':[1,2],'documents':[{}],'functions':[3],'messages':[]}",
	    "{'messages':[],'functions':[3],'documents':[{}],'tools':[1,2]}" },
	{ API_CHAT, SAME,
	    "{'messages':[{'content':'void'}],'messages':[{'content':'x'}],'tools':[1],"
	    "'tools':null}",
	    "{'messages':[{'content':'x'}]}" },
	{ API_CHAT, SAME,
	    "{'messages':[{'role':'v','content':[{'image_url':'U'},{'text':'" S64
	    "'}],'role':'user','content':'x','tool_calls':[{}],'tool_calls':null}]}",
	    "{'messages':[{'role':'user','content':'x'}]}" },
	{ API_CHAT, SAME, "{'messages':[{'content':'x','content':null}]}", "{'messages':[{}]}" },
	{ API_CHAT, SAME,
	    "{'messages':[{'content':[{'text':'" S64 "void','text':'x'},{'image_url':'v',"
	    "'image_url':'w'}]}]}",
	    "{'messages':[{'content':[{'text':'x'},{'image_url':'w'}]}]}" },
	{ API_CHAT, SAME, "{'messages':[{'content':['a','b']}]}",
	    "{'messages':[{'content':[{'text':'a'},{'text':'b'}]}]}" },
	{ API_MESSAGES, SAME, "{'system':'abc','messages':[]}",
	    "{'messages':[],'system':[{'type':'text','text':'abc',"
	    "'cache_control':{'type':'ephemeral'}}]}" },
	{ API_MESSAGES, SAME, "{'system':'void','messages':[],'system':[{'text':'abc'}]}",
	    "{'messages':[],'system':'abc'}" },
	{ API_MESSAGES, SAME,
	    "{'messages':[{'content':[{'type':'tool_use','id':'1','name':'f',"
	    "'input':{'a':1}}]}]}",
	    "{'messages':[{'content':[{'input':{ 'a' : 1 },'name':'f','type':'tool_use','id':'2'}]}]}" },
	{ API_MESSAGES, SAME,
	    "{'messages':[{'content':[{'type':'tool_result','tool_use_id':'1',"
	    "'content':'abc'}]}]}",
	    "{'messages':[{'content':[{'content':[{'type':'text','text':'abc'}],'type':'tool_result',"
	    "'is_error':false}]}]}" },
	/* what Claude Code puts before its system prompt */
	{ API_MESSAGES, SAME,
	    "{'system':[{'type':'text','text':'" BILL "'},{'type':'text','text':'abc'},{'text':'d'}],"
	    "'messages':[{'role':'user','content':'e'}]}",
	    "{'system':[{'text':'x-anthropic-billing-header: other'},{'text':'abc'},{'text':'d'}],"
	    "'messages':[{'role':'user','content':'e'}]}" },
	{ API_MESSAGES, SAME, "{'system':[{'text':'" BILL "'},{'text':'abc'}],'messages':[]}",
	    "{'messages':[],'system':[{'text':'abc'},'" BILL "\\nx']}" },
	{ API_MESSAGES, SAME, "{'system':'" BILL "\\nabc','messages':[]}",
	    "{'messages':[],'system':[{'text':'abc'}]}" },
	{ API_MESSAGES, SAME, "{'messages':[{'role':'system','content':'" BILL "\\nabc'}]}",
	    "{'messages':[{'role':'system','content':''}]}" },
	{ API_MESSAGES, SAME,
	    "{'system':[{'text':'" BILL "','text':'a'},{'text':'b','text':'" BILL "'}],'messages':[]}",
	    "{'system':'a','messages':[]}" },
	{ API_CHAT, SAME, "{'messages':[{'content':'" BILL "\\nabc','role':'system'}]}",
	    "{'messages':[{'role':'system','content':['" BILL "\\n',{'text':'abc'}]}]}" },
	{ API_RESPONSES, SAME, "{'instructions':'" BILL "\\nabc','input':'x'}",
	    "{'instructions':'x-anthropic-billing-header\\u000aabc','input':'x'}" },
	{ API_RESPONSES, SAME, "{'input':'abc'}", "{'input':[{'role':'user','content':'abc'}]}" },
	{ API_RESPONSES, SAME, "{'input':[{'role':'user','content':'abc'}]}",
	    "{'input':[{'type':'message','id':'m','status':'completed','role':'user',"
	    "'content':[{'type':'input_text','text':'abc'}]}]}" },
	{ API_RESPONSES, SAME,
	    "{'input':[{'type':'reasoning','summary':[{'text':'s'}],"
	    "'encrypted_content':'e'}]}",
	    "{'input':[{'type':'reasoning','summary':[]}]}" },
	{ API_COMPLETIONS, SAME, "{'prompt':'abc'}", "{'prompt':['abc']}" },
	{ API_COMPLETIONS, SAME, "{'prompt':['','abc','']}", "{'prompt':'abc'}" },
	{ API_COMPLETIONS, SAME, "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}",
	    "{'prompt':[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]}" },
	{ API_COMPLETIONS, SAME, "{'prompt':'void','prompt':['abc']}", "{'prompt':'abc'}" },
	{ API_GENERATE, SAME, "{'input_ids':[1,'x'],'text':'abc'}", "{'text':'abc'}" },
	/* prompts that differ */
	{ API_CHAT, OTHER, "{'messages':[{'role':'user','content':'abc'}]}",
	    "{'messages':[{'role':'assistant','content':'abc'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'user','content':'abc'}]}",
	    "{'messages':[{'content':'abc'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'user','content':'abc','name':'x'}]}",
	    "{'messages':[{'role':'user','content':'abc'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'a','name':'b'}]}",
	    "{'messages':[{'role':'b','name':'a'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':'abc'}]}", "{'messages':[{'content':'abd'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':''}]}",
	    "{'messages':[{'content':'\\u0000'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':'a'},{'content':'b'}]}",
	    "{'messages':[{'content':'b'},{'content':'a'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':'a'},{'content':'b'}]}",
	    "{'messages':[{'content':'ab'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'text':'ab'},{'text':'c'}]}]}",
	    "{'messages':[{'content':[{'text':'a'},{'text':'bc'}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'text':'a'},{'text':''}]}]}",
	    "{'messages':[{'content':[{'text':'a'}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'text':'" S64 "'},{'text':'x'}]}]}",
	    "{'messages':[{'content':'" S64 "x'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'image_url':'U'}]}]}",
	    "{'messages':[{'content':[{'image_url':'V'}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'image_url':'U'}]}]}",
	    "{'messages':[{'content':'U'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'text':'a'},{'image_url':'U'}]}]}",
	    "{'messages':[{'content':[{'image_url':'U'},{'text':'a'}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'image_url':{'url':'U','detail':'low'}}]}]}",
	    "{'messages':[{'content':[{'image_url':{'url':'U','detail':'high'}}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'video':['a','bc']}]}]}",
	    "{'messages':[{'content':[{'video':['ab','c']}]}]}" },
	{ API_CHAT, OTHER,
	    "{'messages':[{'content':'x','tool_calls':[{'function':{'name':'f',"
	    "'arguments':''}}]}]}",
	    "{'messages':[{'content':'x','tool_calls':[{'function':{'name':'g',"
	    "'arguments':''}}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':'" S64 "'}]}",
	    "{'messages':[{'reasoning':'" S64 "'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':'a','reasoning':'b'}]}",
	    "{'messages':[{'content':'b','reasoning':'a'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'content':[{'text':'a'}]}]}",
	    "{'messages':[{'content':[{'refusal':'a'}]}]}" },
	{ API_CHAT, OTHER, "{'messages':[],'tools':[{'a':'1'}]}",
	    "{'messages':[],'tools':[{'a':1}]}" },
	{ API_CHAT, OTHER, "{'messages':[],'tools':[{'a':{'cache_control':1}}]}",
	    "{'messages':[],'tools':[{'a':{}}]}" },
	{ API_CHAT, OTHER, "{'messages':[],'tools':['a','b']}",
	    "{'messages':[],'tools':['a\\u0022,\\u0022b']}" },
	{ API_CHAT, OTHER, "{'messages':[],'tools':[1,2]}", "{'messages':[],'tools':[12]}" },
	{ API_CHAT, OTHER, "{'messages':[],'tools':[1]}", "{'messages':[],'functions':[1]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'system','content':'a'}]}",
	    "{'messages':[{'role':'developer','content':'a'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'user','content':'" BILL "1'}]}",
	    "{'messages':[{'role':'user','content':'" BILL "2'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'system','content':'a" BILL "1'}]}",
	    "{'messages':[{'role':'system','content':'a" BILL "2'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'developer','content':'" BILL "1'}]}",
	    "{'messages':[{'role':'developer','content':'" BILL "2'}]}" },
	{ API_CHAT, OTHER, "{'messages':[{'role':'system','content':[{'refusal':'" BILL "1'}]}]}",
	    "{'messages':[{'role':'system','content':[{'refusal':'" BILL "2'}]}]}" },
	{ API_MESSAGES, OTHER,
	    "{'messages':[{'content':[{'type':'tool_result','content':[{'text':'" BILL "1'},'b']}]}]}",
	    "{'messages':[{'content':[{'type':'tool_result','content':[{'text':'" BILL "2'},'b']}]}]}" },
	{ API_MESSAGES, OTHER, "{'messages':[{'content':[{'thinking':'a'}]}]}",
	    "{'messages':[{'content':[{'text':'a'}]}]}" },
	{ API_MESSAGES, OTHER,
	    "{'messages':[{'content':[{'type':'tool_use','name':'f','input':{'a':1}}]"
	    "}]}",
	    "{'messages':[{'content':[{'type':'tool_use','name':'g','input':{'a':1}}]}]}" },
	{ API_MESSAGES, OTHER, "{'messages':[{'content':[{'content':'a'},{'text':'b'}]}]}",
	    "{'messages':[{'content':[{'content':[{'text':'a'},{'text':'b'}]}]}]}" },
	{ API_MESSAGES, OTHER, "{'system':'a','messages':[]}",
	    "{'messages':[{'role':'system','content':'a'}]}" },
	{ API_RESPONSES, OTHER, "{'input':[{'type':'function_call','name':'f','arguments':'{}'}]}",
	    "{'input':[{'type':'function_call','name':'g','arguments':'{}'}]}" },
	{ API_RESPONSES, OTHER, "{'input':[{'type':'function_call_output','output':'x'}]}",
	    "{'input':[{'type':'message','content':'x'}]}" },
	{ API_RESPONSES, OTHER, "{'input':[{'role':'user','content':'a'}]}",
	    "{'instructions':'a','input':[]}" },
	{ API_COMPLETIONS, OTHER, "{'prompt':['" S64 "','b']}", "{'prompt':'" S64 "b'}" },
	{ API_COMPLETIONS, OTHER, "{'prompt':['a','b']}", "{'prompt':['b','a']}" },
	{ API_COMPLETIONS, OTHER, "{'prompt':'" S50 "'}", "{'prompt':'" S50 S10 "'}" },
	{ API_COMPLETIONS, OTHER, "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}",
	    "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,16,15]}" },
	{ API_COMPLETIONS, OTHER,
	    "{'prompt':[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],[1,2,3,4,5,6,7,8,"
	    "9,10,11,12,13,14,15,16]]}",
	    "{'prompt':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}" },
};

static char *quoted(char *to, size_t n, const char *text)
{
	char *q;

	assert_true((size_t)snprintf(to, n, "%s", text) < n);
	for (q = to; *q != '\0'; q++)
		if (*q == '\'')
			*q = '"';
	return to;
}

static void test_pairs(void **state)
{
	struct body *a = body_make(), *b = body_make();
	char x[4096], y[4096];
	size_t i;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const struct prompt *p, *q;

		p = feed_text(a, pairs[i].api, quoted(x, sizeof(x), pairs[i].a));
		q = feed_text(b, pairs[i].api, quoted(y, sizeof(y), pairs[i].b));
		assert_int_equal(p->json, JSON_DONE);
		assert_int_equal(q->json, JSON_DONE);
		if (pages_eq(p, q) != (pairs[i].want == SAME))
			fail_msg("want %s pages:\n%s\n%s", pairs[i].want == SAME ? "equal" : "different",
				 x, y);
		check_ref(p, x, strlen(x));
		check_ref(q, y, strlen(y));
	}
	body_free(a);
	body_free(b);
}

/* A leading system message and a separate system text make the same pages. */
static void test_system(void **state)
{
	struct body *a = body_make(), *b = body_make();
	const struct prompt *p, *q;

	p = feed_text(a, API_MESSAGES, "{\"system\":\"" S64 "abc\",\"messages\":[]}");
	q = feed_text(b, API_CHAT, "{\"messages\":[{\"content\":\"" S64 "abc\",\"role\":\"system\"}]}");
	assert_int_equal(p->system.n, 2);
	assert_true(vec_eq(&p->system, &q->messages));
	assert_int_equal(q->n_leading, 2);
	body_free(a);
	body_free(b);
}

static void test_history(void **state)
{
	static const struct { const char *messages; uint32_t history; } cases[] = {
		{ "{'role':'user','content':'a'}", 0 },
		{ "{'role':'assistant','content':'a'}", 0 },		/* no page before it */
		{ "{'role':'user','content':'a'},{'role':'assistant','content':'b'}", 1 },
		{ "{'role':'user','content':'a'},{'content':'b','role':'assistant'},{'role':'user',"
		  "'content':'c'}", 1 },
		{ "{'role':'system','content':'s'},{'role':'user','content':'a'},{'role':'assistant',"
		  "'content':'b'},"
		  "{'role':'user','content':'c'},{'role':'assistant','content':'d'},{'role':'user',"
		  "'content':'e'}", 4 },
		{ "{'role':'user','content':'a'},{'role':'model','content':'b'}", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct body *b = body_make();
		char text[1024];

		snprintf(text, sizeof(text), "{'messages':[%s]}", cases[i].messages);
		for (char *c = text; *c != '\0'; c++)
			*c = *c == '\'' ? '"' : *c;
		assert_int_equal(feed_text(b, API_CHAT, text)->n_history, cases[i].history);
		body_free(b);
	}
}

/* ---- bodies with and without a prompt -------------------------------------------------------- */

static void test_found(void **state)
{
	static const struct {
		enum prompt_api api;
		bool found;
		const char *body;
	} cases[] = {
		{ API_CHAT, true, "{'messages':[{}]}" }, { API_CHAT, false, "{'messages':[]}" },
		{ API_CHAT, false, "{}" }, { API_CHAT, false, "{'messages':null}" },
		{ API_CHAT, false, "{'messages':[1,'a',[]]}" }, { API_CHAT, false, "5 " },
		{ API_CHAT, false, "[]" },
		{ API_CHAT, false, "{'messages':[{}],'messages':[]}" },
		{ API_COMPLETIONS, true, "{'prompt':'x'}" }, { API_COMPLETIONS, false, "{'prompt':''}" },
		{ API_COMPLETIONS, false, "{'prompt':['','']}" },
		{ API_COMPLETIONS, true, "{'prompt':['','x']}" },
		{ API_COMPLETIONS, true, "{'prompt':[0]}" }, { API_COMPLETIONS, true, "{'prompt':[4294967295]}" },
		{ API_COMPLETIONS, false, "{'prompt':[4294967296]}" },
		{ API_COMPLETIONS, false, "{'prompt':[-1]}" },
		{ API_COMPLETIONS, false, "{'prompt':[99999999999]}" },
		{ API_COMPLETIONS, false, "{'prompt':[1.0]}" },
		{ API_COMPLETIONS, false, "{'prompt':[1e2]}" }, { API_COMPLETIONS, false, "{'prompt':[1,null]}" },
		{ API_COMPLETIONS, false, "{'prompt':[1,'a']}" },
		{ API_COMPLETIONS, false, "{'prompt':['a',1]}" },
		{ API_COMPLETIONS, false, "{'prompt':['a',[1]]}" },
		{ API_COMPLETIONS, false, "{'prompt':[[1],2]}" },
		{ API_COMPLETIONS, false, "{'prompt':[[1],['a']]}" },
		{ API_COMPLETIONS, false, "{'prompt':[[[1]]]}" },
		{ API_COMPLETIONS, false, "{'prompt':[null]}" },
		{ API_COMPLETIONS, false, "{'prompt':{'a':'b'}}" },
		{ API_COMPLETIONS, false, "{'prompt':7}" }, { API_COMPLETIONS, false, "{'prompt':true}" },
		{ API_COMPLETIONS, true, "{'prompt':[1,'a'],'prompt':'b'}" },
		{ API_COMPLETIONS, false, "{'prompt':[[],[]]}" },
		{ API_COMPLETIONS, true, "{'prompt':[[],[3]]}" },
		{ API_RESPONSES, false, "{'input':''}" }, { API_RESPONSES, true, "{'input':'a'}" },
		{ API_RESPONSES, false, "{'instructions':'a'}" }, { API_MESSAGES, false, "{'system':'a'}" },
		{ API_GENERATE, false, "{'text':null,'input_ids':null}" },
		{ API_GENERATE, true, "{'text':null,'input_ids':[1]}" },
		{ API_NONE, false, "{'messages':[{}],'prompt':'x'}" },
	};
	struct body *b = body_make();
	char text[256];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct prompt *p = feed_text(b, cases[i].api, quoted(text, sizeof(text), cases[i].body));

		assert_int_equal(p->json, JSON_DONE);
		if (p->found != cases[i].found)
			fail_msg("%s: found is %d", text, p->found);
		check_ref(p, text, strlen(text));
	}
	assert_int_equal(feed_text(b, API_CHAT, "{\"messages\":[{}]}}")->json, JSON_BAD);
	assert_int_equal(feed_text(b, API_CHAT, "no")->json, JSON_BAD);
	assert_int_equal(feed_text(b, API_CHAT, "")->json, JSON_MORE);
	body_free(b);
}

/* ---- names ----------------------------------------------------------------------------------- */

#define CLAUDE(account, session) \
	"'metadata':{'user_id':'user_0a_account_" account "_session_" session "'}"
#define CLAUDE_JSON(device, session) \
	"'metadata':{'user_id':'{\\'device_id\\':\\'" device "\\',\\'session_id\\' : \\'" session "\\'}'}"
#define USER	"'user':'u'"

/* Bodies name their session alike, or not. */
static void test_session_names(void **state)
{
	static const struct {
		bool same;
		const char *a, *b;
	} cases[] = {
		{ true, "'prompt_cache_key':'k'", "'prompt_cache_key':'k'," USER ",'conversation':'c'" },
		{ false, "'prompt_cache_key':'k'", "'prompt_cache_key':'l'" },
		{ true, CLAUDE("a", "s"), CLAUDE("b", "s") },
		{ true, CLAUDE("a", "s"), CLAUDE_JSON("d", "s") },
		{ true, CLAUDE_JSON("d", "s"), CLAUDE_JSON("e", "s") "," USER ",'conversation':'c'" },
		{ false, CLAUDE("a", "s"), CLAUDE("a", "t") },
		{ false, CLAUDE_JSON("d", "s"), CLAUDE_JSON("d", "t") },
		{ true, CLAUDE("a", "s") ",'prompt_cache_key':'k'", "'prompt_cache_key':'k'" },
		{ true, "'conversation':'c'", "'conversation':{'x':{'id':'d'},'id':'c'}," USER },
		{ false, "'conversation':'c'", "'conversation':{'id':'d'}" },
		{ true, "'conversation':{'id':'c'},'conversation':null," USER, USER },
		{ true, USER, "'conversation':{'x':'c'}," USER },
		{ true, "'safety_identifier':'s'", "'safety_identifier':'s'," USER },
		{ true, "'prompt_cache_key':'','safety_identifier':5," USER, USER },
		{ true, "'prompt_cache_key':'k','prompt_cache_key':null," USER, USER },
		{ true, USER ",'metadata':{'user_id':'m'}", USER },
		{ false, "'metadata':{'user_id':'m_session_'}", "'metadata':{'user_id':'n_session_'}" },
		{ false, "'metadata':{'user_id':'{\\'session_id\\':5}'}", "'metadata':{'user_id':'{}'}" },
		{ true, "'x':'y'", "'x':{'prompt_cache_key':'k'},'previous_response_id':'r'" },
	};
	struct body *a = body_make(), *b = body_make();
	char text[512], one[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t of_a, of_b;

		snprintf(one, sizeof(one), "{%s}", cases[i].a);
		of_a = prompt_session(feed_text(a, API_RESPONSES, quoted(text, sizeof(text), one)));
		snprintf(one, sizeof(one), "{%s}", cases[i].b);
		of_b = prompt_session(feed_text(b, API_RESPONSES, quoted(text, sizeof(text), one)));
		if ((of_a == of_b) != cases[i].same)
			fail_msg("%s  %s", cases[i].a, cases[i].b);
		assert_true((of_a != 0) == (strncmp(cases[i].a, "'x'", 3) != 0));
	}
	body_free(a);
	body_free(b);
}

static void test_response_named(void **state)
{
	struct body *b = body_make();
	const struct prompt *p = feed_text(b, API_RESPONSES, "{\"previous_response_id\":\"resp_1\"}");

	assert_int_equal(p->previous, prompt_response_hash(&key, SPAN("resp_1")));
	assert_int_not_equal(p->previous, prompt_response_hash(&key, SPAN("resp_2")));
	assert_int_equal(prompt_response_hash(&key, SPAN("")), 0);
	assert_int_equal(prompt_session(p), 0);
	body_free(b);
}

static void test_names(void **state)
{
	static const struct {
		const char *body, *model, *lora, *salt, *user;	/* NULL: not seen; "*": seen, as a hash */
	} cases[] = {
		{ "{'model':'m','user':'u','cache_salt':'s','lora_path':'l'}", "m", "l", "s", "u" },
		{ "{}", NULL, NULL, NULL, NULL },
		{ "{'model':'','user':''}", "", NULL, NULL, "" },
		{ "{'model':null,'user':5,'lora_path':{},'cache_salt':null}", NULL, NULL, NULL, NULL },
		{ "{'model':['m'],'lora_name':['l','k']}", NULL, "l", NULL, NULL },
		{ "{'lora_path':[null,'l']}", NULL, "l", NULL, NULL },
		{ "{'lora_path':[]}", NULL, NULL, NULL, NULL },
		{ "{'model':'a','model':'b'}", "b", NULL, NULL, NULL },
		{ "{'model':'a','model':5}", NULL, NULL, NULL, NULL },
		{ "{'adapter_id':'c','lora_name':'b','lora_path':'a'}", NULL, "a", NULL, NULL },
		{ "{'lora_path':'a','lora_name':'b','adapter_id':'c'}", NULL, "a", NULL, NULL },
		{ "{'lora_name':'b','lora_path':null}", NULL, "b", NULL, NULL },
		{ "{'metadata':{'user_id':'m'},'user':'u'}", NULL, NULL, NULL, "u" },
		{ "{'user':'u','metadata':{'user_id':'m'}}", NULL, NULL, NULL, "u" },
		{ "{'metadata':{'x':{'user_id':'no'},'user_id':'m'}}", NULL, NULL, NULL, "m" },
		{ "{'metadata':'x'}", NULL, NULL, NULL, NULL },
		{ "{'cache_salt':5}", NULL, NULL, "*", NULL },
		{ "{'extra_key':['a','b']}", NULL, NULL, "*", NULL },
		{ "{'extra_key':'e'}", NULL, NULL, "e", NULL },
		{ "{'extra_key':'e','cache_salt':'s'}", NULL, NULL, "*", NULL },
		{ "{'cache_salt':'s','extra_key':null}", NULL, NULL, "s", NULL },
		{ "{'x':{'model':'no'},'messages':[{'model':'no','user':'no'}]}", NULL, NULL, NULL, NULL },
		{ "{'model':'m\\u00fc\\n'}", "m\xc3\xbc\n", NULL, NULL, NULL },
	};
	struct body *b = body_make();
	char text[256];
	size_t i, k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct prompt *p = feed_text(b, API_CHAT, quoted(text, sizeof(text), cases[i].body));
		const struct prompt_name *names[] = { &p->model, &p->lora, &p->salt, &p->user };
		const char *want[] = { cases[i].model, cases[i].lora, cases[i].salt, cases[i].user };

		for (k = 0; k < 4; k++) {
			if (names[k]->seen != (want[k] != NULL))
				fail_msg("%s: name %zu seen: %d", text, k, names[k]->seen);
			assert_int_equal(strlen(names[k]->s), names[k]->n);
			if (want[k] != NULL && strcmp(want[k], "*") == 0)
				assert_memory_equal(names[k]->s, "hash:", 5);
			else
				assert_string_equal(names[k]->s, want[k] != NULL ? want[k] : "");
		}
	}
	body_free(b);
}

static void salt_of(struct body *b, char *to, const char *text)
{
	char room[256];

	strcpy(to, feed_text(b, API_CHAT, quoted(room, sizeof(room), text))->salt.s);
}

static void test_salts(void **state)
{
	static const char *const different[] = {
		"{'cache_salt':'a'}", "{'cache_salt':'b'}", "{'cache_salt':'a','extra_key':'b'}",
		"{'cache_salt':'b','extra_key':'a'}", "{'extra_key':['a','b']}", "{'extra_key':['ab']}",
		"{'cache_salt':5}", "{'cache_salt':'a','extra_key':['b']}",
	};
	char a[PROMPT_NAME_MAX + 1], c[PROMPT_NAME_MAX + 1];
	struct body *b = body_make();
	size_t i, k;

	for (i = 0; i < sizeof(different) / sizeof(different[0]); i++) {
		for (k = 0; k < sizeof(different) / sizeof(different[0]); k++) {
			salt_of(b, a, different[i]);
			salt_of(b, c, different[k]);
			if ((strcmp(a, c) == 0) != (i == k))
				fail_msg("wrong equality of the salts of %s and %s", different[i], different[k]);
		}
	}
	salt_of(b, a, "{'cache_salt':'a','extra_key':'b'}");
	salt_of(b, c, "{'extra_key':'b','x':1,'cache_salt':'a'}");
	assert_string_equal(a, c);
	body_free(b);
}

/* Two generate bodies of the same text with different images have different salts. */
static void test_images_beside(void **state)
{
	static const char *const different[] = {
		"{'text':'a'}", "{'text':'a','image_data':'AAAA'}", "{'image_data':'AAAB','text':'a'}",
		"{'text':'a','image_data':['AAAA','AAAB']}", "{'text':'a','image_data':'AAAA','cache_salt':'s'}",
		"{'text':'a','cache_salt':'s'}", "{'text':'a','extra_key':'AAAA','image_data':'s'}",
	};
	char room[256], salt[7][PROMPT_NAME_MAX + 1];
	struct body *b = body_make();
	size_t i, k;

	for (i = 0; i < 7; i++)
		strcpy(salt[i], feed_text(b, API_GENERATE, quoted(room, sizeof(room), different[i]))->salt.s);
	for (i = 0; i < 7; i++)
		for (k = 0; k < i; k++)
			if (strcmp(salt[i], salt[k]) == 0)
				fail_msg("the same salt: %s and %s", different[i], different[k]);
	assert_string_equal(salt[0], "");
	feed_text(b, API_GENERATE, quoted(room, sizeof(room), "{'image_data':'AAAA','text':'a'}"));
	assert_string_equal(body_prompt(b)->salt.s, salt[1]);
	feed_text(b, API_GENERATE, quoted(room, sizeof(room), "{'image_data':'x','text':'a',"
		"'image_data':null}"));
	assert_false(body_prompt(b)->salt.seen);
	body_free(b);
}

static void test_long_names(void **state)
{
	char text[4096], a[PROMPT_NAME_MAX + 1];
	struct body *b = body_make();
	const struct prompt *p;
	size_t n, i;

	for (n = PROMPT_NAME_MAX - 1; n <= PROMPT_NAME_MAX + 1; n++) {
		snprintf(text, sizeof(text), "{\"model\":\"%0*d\"}", (int)n, 7);
		p = feed_text(b, API_CHAT, text);
		assert_int_equal(p->model.n, n <= PROMPT_NAME_MAX ? n : 21);
		assert_int_equal(p->model.s[0], n <= PROMPT_NAME_MAX ? '0' : 'h');
	}
	snprintf(text, sizeof(text), "{\"model\":\"%02000d\"}", 7);
	strcpy(a, feed_text(b, API_CHAT, text)->model.s);
	body_reset(b, API_CHAT);
	for (i = 0; i < strlen(text); i++)
		body_feed(b, text + i, 1);
	assert_string_equal(body_prompt(b)->model.s, a);
	snprintf(text, sizeof(text), "{\"model\":\"%02001d\"}", 7);
	assert_string_not_equal(feed_text(b, API_CHAT, text)->model.s, a);
	body_free(b);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_max_pages(void **state)
{
	struct prompt_opts o = opts;
	static const char text[] = "{\"messages\":[{\"content\":\"" S64 S64 S64 "\"}],\"tools\":[1,2]}";
	struct body *whole = body_make(), *b;
	const struct prompt *p, *w;

	w = feed_text(whole, API_CHAT, text);
	assert_int_equal(w->messages.n, 4);
	for (o.max_pages = 0; o.max_pages < 8; o.max_pages++) {
		b = body_new(&o, &key);
		assert_non_null(b);
		p = feed_text(b, API_CHAT, text);
		assert_int_equal(p->messages.n + p->tools.n, o.max_pages < 5 ? o.max_pages : 5);
		assert_int_equal(p->truncated, o.max_pages < 5);
		assert_true(vec_starts(&w->messages, &p->messages));
		assert_int_equal(p->json, JSON_DONE);
		p = feed_text(b, API_CHAT, "{\"messages\":[]}");	/* the count starts again with each body */
		assert_false(p->truncated);
		body_free(b);
	}
	body_free(whole);
}

/* Page sizes out of range are moved into range. */
static void test_page_sizes(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 15, 16, 17, 63, 65, 100, 256, 257, UINT32_MAX };
	struct prompt_opts save = opts;
	struct body *b;
	size_t i;
	char text[2000];

	snprintf(text, sizeof(text), "{\"messages\":[{\"content\":\"%01500d\"}]}", 5);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		opts = save;
		opts.text_page = opts.token_page = sizes[i];
		b = body_make();
		opts.text_page = sizes[i] < 16 ? 16 : sizes[i] > 256 ? 256 : sizes[i];
		opts.token_page = sizes[i] < 1 ? 1 : sizes[i] > 512 ? 512 : sizes[i];
		check_ref(feed_text(b, API_CHAT, text), text, strlen(text));
		assert_int_equal(body_prompt(b)->messages.n, 1500 / opts.text_page + 1);
		check_ref(feed_text(b, API_COMPLETIONS, "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13]}"),
			  "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13]}", 43);
		body_free(b);
	}
	opts = save;
}

static void test_nesting(void **state)
{
	struct body *b = body_make();
	char text[1024];
	size_t n;

	for (n = 124; n < 128; n++) {	/* tools at depth 1: n nested lists with a number inside */
		snprintf(text, sizeof(text), "{\"messages\":[{}],\"tools\":");
		memset(text + strlen(text) + 1, 0, 300);
		memset(text + strlen(text), '[', n);
		strcat(text, "7");
		memset(text + strlen(text), ']', n);
		strcat(text, "}");
		assert_int_equal(feed_text(b, API_CHAT, text)->json, n < 128 ? JSON_DONE : JSON_BAD);
		memset(text, 0, sizeof(text));
	}
	snprintf(text, sizeof(text), "{\"messages\":[{\"content\":");
	memset(text + strlen(text), '[', 200);
	assert_int_equal(feed_text(b, API_CHAT, text)->json, JSON_BAD);
	body_free(b);
}

static void test_big(void **state)
{
	size_t n = 1 << 20, i, k;
	char *text = malloc(n + 100);
	struct body *b = body_make(), *c = body_make();
	const struct prompt *p;

	assert_non_null(text);
	strcpy(text, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
	i = strlen(text);
	for (k = i; k < n; k++)
		text[k] = (char)('a' + (k * 2654435761u >> 16) % 26);
	strcpy(text + n, "\"}],\"model\":\"m\"}");
	p = feed_text(b, API_CHAT, text);
	assert_int_equal(p->json, JSON_DONE);
	assert_int_equal(p->messages.n, (n - i) / 64 + 1);
	assert_int_equal(p->n_units, n - i);
	check_ref(p, text, strlen(text));
	body_reset(c, API_CHAT);
	for (k = 0; k < strlen(text); k += 15000)
		body_feed(c, text + k, strlen(text) - k < 15000 ? strlen(text) - k : 15000);
	assert_true(prompt_eq(p, body_prompt(c)));
	assert_in_range(body_bytes(b), (n - i) / 8, n / 2);
	free(text);
	body_free(b);
	body_free(c);
}

/* A reset drops all content of the last body and keeps the memory. */
static void test_reset(void **state)
{
	struct body *b = body_make(), *fresh = body_make();
	size_t bytes;

	feed_text(b, API_CHAT, "{\"model\":\"m\",\"tools\":[{\"a\":\"" S64 "\"}],\"cache_salt\":\"s\","
		  "\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"" S64 "cut \xe4\xb8");
	bytes = body_bytes(b);
	feed_text(b, API_COMPLETIONS, "{\"prompt\":[\"x\",\"y\"]}");
	feed_text(fresh, API_COMPLETIONS, "{\"prompt\":[\"x\",\"y\"]}");
	assert_true(prompt_eq(body_prompt(b), body_prompt(fresh)));
	assert_int_equal(body_bytes(b), bytes);
	body_free(b);
	body_free(fresh);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void check_file(const struct file *f)
{
	struct body *b = body_make();
	const struct prompt *p = feed_whole(b, f->api, f->p, f->n);

	assert_int_equal(p->json, JSON_DONE);
	assert_true(p->prompt_seen);
	assert_int_equal(p->found, strstr(f->name, "mixed") == NULL);
	check_ref(p, f->p, f->n);
	body_free(b);
}

static void test_files(void **state)
{
	each_body(check_file);
}

/* The number of either key, limited to the range. The hint of Dynamo wins over the plain key in any
 * order. */
static void test_priority(void **state)
{
	static const struct {
		int priority;
		const char *body;
	} cases[] = {
		{ 0, "{}" }, { 5, "{'priority':5}" }, { -3, "{'priority':-3}" }, { 0, "{'priority':null}" },
		{ 23, "{'priority':24}" }, { 23, "{'priority':99999999999999999999999}" },
		{ -8, "{'priority':-9}" }, { 7, "{'priority':7.9}" }, { 0, "{'priority':1e3}" },
		{ 0, "{'priority':'5'}" }, { 0, "{'priority':[5]}" }, { 4, "{'priority':9,'priority':4}" },
		{ 0, "{'priority':5,'priority':null}" },
		{ 6, "{'nvext':{'agent_hints':{'osl':9,'priority':6}}}" },
		{ 6, "{'priority':2,'nvext':{'agent_hints':{'priority':6}}}" },
		{ 6, "{'nvext':{'agent_hints':{'priority':6}},'priority':2}" },
		{ 2, "{'nvext':{'priority':6},'priority':2}" },
		{ 0, "{'nvext':[{'agent_hints':{'priority':6}}]}" },
		{ 0, "{'messages':[{'priority':6}],'metadata':{'priority':6}}" },
	};
	struct body *b = body_make();
	char x[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		feed_text(b, API_CHAT, quoted(x, sizeof(x), cases[i].body));
		if (body_prompt(b)->priority != cases[i].priority)
			fail_msg("%s: priority %d", cases[i].body, body_prompt(b)->priority);
	}
	assert_int_equal(feed_text(b, API_GENERATE, "{\"priority\":1}")->priority, 1);
	assert_int_equal(feed_text(b, API_CHAT, "{}")->priority, 0);
	body_free(b);
}

/* Limits of the answer and what the client expects; both limited, and the last of a key wins. */
static void test_output(void **state)
{
	static const struct {
		uint32_t limit, hint;
		const char *body;
	} cases[] = {
		{ 0, 0, "{}" }, { 50, 0, "{'max_tokens':50}" }, { 60, 0, "{'max_completion_tokens':60}" },
		{ 70, 0, "{'max_output_tokens':70}" }, { 0, 0, "{'max_tokens':null}" },
		{ 60, 0, "{'max_tokens':50,'max_completion_tokens':60}" },
		{ 60, 0, "{'max_completion_tokens':60,'max_tokens':50}" },
		{ 50, 0, "{'max_completion_tokens':null,'max_tokens':50}" },
		{ 3, 0, "{'max_tokens':9,'max_tokens':3}" }, { 0, 0, "{'max_tokens':9,'max_tokens':'3'}" },
		{ 0, 0, "{'max_tokens':-1}" }, { 0, 0, "{'max_tokens':1e3}" }, { 7, 0, "{'max_tokens':7.9}" },
		{ 1 << 20, 0, "{'max_tokens':99999999999999999999999}" },
		{ 0, 9, "{'nvext':{'agent_hints':{'osl':9}}}" },
		{ 5, 9, "{'nvext':{'agent_hints':{'priority':2,'osl':9}},'max_tokens':5}" },
		{ 0, 1 << 20, "{'nvext':{'agent_hints':{'osl':4294967297}}}" },
		{ 0, 0, "{'nvext':{'agent_hints':{'osl':[9],'max_tokens':3}}}" },
		{ 0, 0, "{'osl':9,'nvext':{'osl':9},'messages':[{'max_tokens':9}]}" },
	};
	struct body *b = body_make();
	char x[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct prompt *p = body_prompt(b);

		feed_text(b, API_CHAT, quoted(x, sizeof(x), cases[i].body));
		if (p->output_limit != cases[i].limit || p->output_hint != cases[i].hint)
			fail_msg("%s: limit %u, hint %u", cases[i].body, p->output_limit, p->output_hint);
	}
	body_free(b);
}

/* In objects of their own: of SGLang's generate, and of Google's contents. */
static void test_output_of_others(void **state)
{
	static const struct {
		enum prompt_api api;
		uint32_t limit;
		const char *body;
	} cases[] = {
		{ API_GENERATE, 40, "{'text':'a','sampling_params':{'temperature':0,'max_new_tokens':40}}" },
		{ API_GENERATE, 40, "{'sampling_params':{'max_new_tokens':40},'text':'a'}" },
		{ API_GENERATE, 0, "{'sampling_params':[{'max_new_tokens':40}],'text':'a'}" },
		{ API_GENERATE, 0, "{'sampling_params':{'x':{'max_new_tokens':40}},'text':'a'}" },
		{ API_GENERATE, 0, "{'sampling_params':null,'max_new_tokens':40,'text':'a'}" },
		{ API_GENERATE, 0, "{'generationConfig':{'maxOutputTokens':40},'text':'a'}" },
		{ API_CONTENTS, 30, "{'contents':[],'generationConfig':{'maxOutputTokens':30,'topK':9}}" },
		{ API_CONTENTS, 30, "{'generation_config':{'max_output_tokens':30},'contents':[]}" },
		{ API_CONTENTS, 1 << 20, "{'generationConfig':{'maxOutputTokens':1234567890123}}" },
		{ API_CONTENTS, 0, "{'generationConfig':{'maxOutputTokens':'30'}}" },
		{ API_CHAT, 0, "{'sampling_params':{'max_new_tokens':40}}" },
		{ API_CHAT, 0, "{'generationConfig':{'maxOutputTokens':30}}" },
	};
	struct body *b = body_make();
	char x[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		feed_text(b, cases[i].api, quoted(x, sizeof(x), cases[i].body));
		if (body_prompt(b)->output_limit != cases[i].limit)
			fail_msg("%s: limit %u", cases[i].body, body_prompt(b)->output_limit);
	}
	body_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_output_of_others),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_system),
		cmocka_unit_test(test_history),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_session_names),
		cmocka_unit_test(test_response_named),
		cmocka_unit_test(test_salts),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_images_beside),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_max_pages),
		cmocka_unit_test(test_page_sizes),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_big),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_files),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
